"""`StreamTask`: a stream of model code on the server's event loop, in one task and one context."""

import asyncio
import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextvars import copy_context
from functools import lru_cache
from types import CodeType
from typing import Any, cast

from ...concurrency.model_task import ModelTask, Outcome, outcome_of


@lru_cache(1024)
def _needs_task(code: CodeType) -> bool:
    """Whether an async generator may notice which task and context run and close it.

    One that names only built-in functions cannot, and its steps are spared 0.7 µs each.
    """
    return bool(code.co_freevars) or not all(hasattr(builtins, name) for name in code.co_names)


def as_task(generator: AsyncGenerator[Any]) -> "AsyncGenerator[Any] | StreamTask":
    """The responses of a generator, in a task if it needs one."""
    return StreamTask(generator) if _needs_task(cast(Any, generator).ag_code) else generator


class StreamTask(ModelTask):
    """An async iterator of model code, whose steps and end run as one task in a copy of the current context."""

    def __init__(self, responses: AsyncIterator[Any]) -> None:
        self._context = copy_context()
        self._responses = responses
        self._early: asyncio.Task[Outcome] | None = None
        """The next step, if a cancel came before its reader."""

    def __aiter__(self) -> "StreamTask":
        return self

    def __anext__(self) -> Awaitable[Any]:
        if self._early is not None:
            return self._take_early(self._early)
        if self._must_cancel and (throw := getattr(self._responses, "athrow", None)) is not None:
            self._must_cancel = False
            return self.run(throw(asyncio.CancelledError()))
        return self.run(self._responses.__anext__())

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
        if self._must_cancel and self._host is None and not self._done and self._early is None:
            self._early = asyncio.ensure_future(outcome_of(self.__anext__()))

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
            self._done = True
