"""Safeguards for the stages of plug-ins."""

from contextvars import ContextVar
from dataclasses import replace

from ...extensions.entries import Plugin
from ...extensions.loading import leave_out
from ..call import Call, Handler
from ..reply import Reply
from .base import Pipeline, Shared, StageFactory

_opened: ContextVar[list[Reply] | None] = ContextVar("opened", default=None)
"""Streams that the inner stages have returned to the running stage of another package."""


class _Inner:
    """The inner handler of another package's stage. It records the streams that the stage has to return."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    async def __call__(self, call: Call) -> Reply:
        reply = await self._inner(call)
        if not reply.single and (opened := _opened.get()) is not None:
            opened.append(reply)
        return reply


class _Guarded:
    """If a stage fails, closes the streams that it has opened, so that their slots are released."""

    def __init__(self, stage: Handler) -> None:
        self._stage = stage

    async def __call__(self, call: Call) -> Reply:
        opened: list[Reply] = []
        token = _opened.set(opened)
        try:
            return await self._stage(call)
        except BaseException as error:  # Including cancellation.
            for reply in reversed(opened):
                await reply.aclose(error)
            raise
        finally:
            _opened.reset(token)


def guard_stage(plugin: Plugin, factory: StageFactory) -> StageFactory:
    """Wrap a plug-in's stage factory to raise InvalidSettings if it fails.

    Errors of built-in plug-ins are raised unchanged. The stages of other packages are also guarded during
    calls.
    """

    def join(model: Pipeline, shared: Shared) -> Pipeline:
        inner: Handler = model.handler if plugin.ours else _Inner(model.handler)
        try:
            added = factory(replace(model, handler=inner), shared)
        except Exception as error:
            leave_out(plugin, error, shared.settings.strict)
            return model
        if not isinstance(added, Pipeline):
            reason = (
                f"it returned a {type(added).__name__} for model {model.settings.name}, not a StagedModel"
            )
            leave_out(plugin, reason, shared.settings.strict)
            return model
        if plugin.ours:
            return added
        return replace(added, handler=model.handler if added.handler is inner else _Guarded(added.handler))

    return join
