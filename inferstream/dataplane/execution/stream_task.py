"""`StreamTask`: a stream of model code on the server's event loop, in one task and one context."""

import asyncio
import dis
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextvars import copy_context
from functools import lru_cache
from types import CodeType
from typing import Any, cast

from ...concurrency.model_task import ModelTask, Outcome, outcome_of

RUNS_WHEN_CLOSED = {"PUSH_EXC_INFO", "END_ASYNC_FOR"}
"""Instructions of `try`, `with`, `async with` and `async for`."""


@lru_cache(1024)
def _needs_task(code: CodeType) -> bool:
    """Whether an async generator may notice which task and context run and close it.

    Nothing of one without `try`, `with` and `async for` runs when it is closed, and no scope is open where it yields.
    So it needs no task, whose steps cost 0.5 µs each, unless it asks for its task.
    """
    if any("current_task" in name for name in code.co_names):
        return True
    return any(each.opname in RUNS_WHEN_CLOSED for each in dis.get_instructions(code))


def as_task(generator: AsyncGenerator[Any], responses: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The responses of a generator, in a task if it needs one."""
    return StreamTask(responses) if _needs_task(cast(Any, generator).ag_code) else responses


class StreamTask(ModelTask):
    """An async iterator of model code, whose steps and end run as one task in a copy of the current context."""

    __slots__ = ("_early", "_responses")

    def __init__(self, responses: AsyncIterator[Any]) -> None:
        super().__init__(copy_context())
        self._responses = responses
        self._early: asyncio.Task[Outcome] | None = None
        """The next step, if a cancel came before its reader."""

    def __aiter__(self) -> "StreamTask":
        return self

    def __anext__(self) -> Awaitable[Any]:
        return self.run(self._responses.__anext__()) if self._early is None else self._take_early(self._early)

    async def _take_early(self, early: asyncio.Task[Outcome]) -> Any:
        self._early = None
        value, error = await early
        if error is None:
            return value
        try:
            raise error
        finally:
            del error, early  # the traceback of the error refers to this frame, which would be a cycle

    def interrupt(self) -> None:
        if self._must_cancel and not self._running and not self.done() and self._early is None:
            self._early = asyncio.ensure_future(outcome_of(self.run(self._responses.__anext__())))

    async def aclose(self) -> None:
        early, self._early = self._early, None
        if early is not None:
            await early
        self._must_cancel = False  # it ends anyway
        close = getattr(self._responses, "aclose", None)
        try:
            if close is not None:
                await self.run(close())
        finally:
            if not self.done():
                self.set_result(None)
