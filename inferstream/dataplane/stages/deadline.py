"""Ends a call after its deadline, whether it waits, runs or streams."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from ...errors import DeadlineExceeded
from ...settings import ModelSettings, Settings
from ..call import Call
from ..handler import Handler
from ..reply import AtEnd, Reply
from .base import Pipeline, Shared


class Deadline:
    """Sets one timer for each call with a deadline or a time limit (seconds) from the settings."""

    def __init__(self, inner: Handler, limit: float | None) -> None:
        self._inner = inner
        self._limit = limit

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if call.deadline is None and self._limit is None:
            return self._inner(call)
        return self._timed(call)

    async def _timed(self, call: Call) -> Reply:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._limit is not None:
            call.deadline = min(call.deadline or now + self._limit, now + self._limit)
        assert call.deadline is not None
        if call.deadline <= now:
            raise DeadlineExceeded
        timer = loop.call_at(call.deadline, call.end, DeadlineExceeded())
        try:
            reply = await self._inner(call)
        except BaseException:  # a cancelled call too
            timer.cancel()
            raise
        return reply.watch(AtEnd(lambda _: timer.cancel()))


def limit_of(model: ModelSettings, server: Settings) -> float | None:
    """Seconds that each call of a model may take, its streams too; None unless a settings file says so."""
    for settings in (model, server):
        if says_limit(settings):
            return settings.request_timeout or None
    return None


def says_limit(settings: ModelSettings | Settings) -> bool:
    """Whether the settings state a time limit, or that there is none."""
    return "request_timeout" in settings.model_fields_set


def deadline(model: Pipeline, shared: Shared) -> Pipeline:
    return replace(model, handler=Deadline(model.handler, limit_of(model.settings, shared.settings)))
