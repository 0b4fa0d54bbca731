"""`StreamTask`: a stream of model code on the server's event loop, in a single task and context."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextvars import copy_context
from typing import Any, cast

from ...concurrency.model_task import ModelTask, Outcome, needs_task, run_to_outcome


def as_task(generator: AsyncGenerator[Any]) -> "AsyncGenerator[Any] | StreamTask":
    """Wrap a generator in a task if its code needs one."""
    return StreamTask(generator) if needs_task(cast(Any, generator).ag_code) else generator


class StreamTask(ModelTask):
    """An async iterator of model code, which runs in a single task and a copy of the current context."""

    def __init__(self, responses: AsyncIterator[Any]) -> None:
        super().__init__(asyncio.get_running_loop())
        self._context = copy_context()
        self._responses = responses
        self._early: asyncio.Task[Outcome] | None = None
        """The next step, if it was cancelled before the reader requested it."""

    def __aiter__(self) -> "StreamTask":
        return self

    def __anext__(self) -> Awaitable[Any]:
        if self._early is not None:
            return self._take_early(self._early)
        if self._must_cancel and (throw := getattr(self._responses, "athrow", None)) is not None:
            return self.run(throw(self._take_cancel()))
        return self.run(self._responses.__anext__())

    async def _take_early(self, early: asyncio.Task[Outcome]) -> Any:
        self._early = None
        value, error = await early
        if error is None:
            return value
        try:
            raise error
        finally:
            del error, early  # Avoid a cycle: the traceback refers to this frame.

    def interrupt(self) -> None:
        if self._must_cancel and self._host is None and not self._done and self._early is None:
            self._early = asyncio.ensure_future(run_to_outcome(self.__anext__()))

    async def aclose(self) -> None:
        early, self._early = self._early, None
        if early is not None:
            await early
        self._must_cancel = False  # It is closed anyway.
        close = getattr(self._responses, "aclose", None)
        try:
            if close is not None:
                await self.run(close())
        finally:
            self._done = True
