"""One stream that advances by steps, with the responses that wait for its reader."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextvars import copy_context
from time import perf_counter
from typing import Any

from ...context import request_context
from ...model import Finished
from ...types import InferenceRequest, InferenceResponse
from ..call import Call
from .threads import AHEAD


class SteppedStream(AsyncIterator[InferenceResponse]):
    """One request of a call in the steps. Calls `changed` when its reader left, or it may advance again."""

    __slots__ = (
        "__weakref__",
        "_changed",
        "_error",
        "_loop",
        "_reader",
        "_released",
        "_request_context",
        "_responses",
        "call",
        "came",
        "context",
        "joined",
        "looks",
        "over",
        "request",
        "state",
        "waits",
    )

    def __init__(
        self, request: InferenceRequest, call: Call, looks: int, changed: Callable[["SteppedStream"], None]
    ) -> None:
        self.request = request
        self.call = call
        self.looks = looks  # of the steps, when it joined
        self.waits = True
        """Whether it has no place yet."""
        self.context = copy_context()  # of the call's task, for `admit`
        self.state: Any = None
        self.over = False
        """Whether it no longer advances, because it has ended or its reader has left."""
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self.came = self._loop.time()
        self.joined = perf_counter()  # the loop's time has steps of a millisecond
        self._responses: deque[Any] = deque()
        self._error: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._request_context = request_context()
        self._released: Future[None] = Future()
        self._request_context.thread = self._released

    @property
    def advances(self) -> bool:
        """Whether the next step includes it. A step leaves out streams with a slow reader."""
        return not self.over and len(self._responses) < AHEAD

    def take(self, emission: Any) -> None:
        """Add the result of a step. An invalid object is refused when it is read."""
        if self.over or emission is None:
            return
        if type(emission) is InferenceResponse:
            self._responses.append(emission)
        elif isinstance(emission, Finished):
            self._responses.extend(emission.responses)
            self.over = True
        elif isinstance(emission, BaseException):
            self.fail(emission)
        elif isinstance(emission, (list, tuple)):
            self._responses.extend(emission)
        else:
            self._responses.append(emission)
        self._wake()

    def fail(self, error: BaseException) -> None:
        """End it with `error`, which the reader gets after the earlier responses."""
        if self.over:
            return
        if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
            # For a reader these would mean the end of a stream, a task or the process.
            kind = type(error).__name__
            error, cause = RuntimeError(f"model code raised {kind}"), error
            error.__cause__ = cause
        self._error = error
        self.over = True
        self._wake()

    def _wake(self) -> None:
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    async def __anext__(self) -> InferenceResponse:
        responses = self._responses
        while not responses:
            if self.over:
                error, self._error = self._error, None  # a stored error would be a reference cycle
                try:
                    raise error or StopAsyncIteration
                finally:
                    del error
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        if len(responses) == AHEAD:
            self._changed(self)
        response: InferenceResponse = responses.popleft()
        return response

    async def aclose(self) -> None:
        """End it for its reader. The next step releases the state; does not wait for that."""
        self._responses.clear()
        self._error = None
        self._request_context.cancelled = True
        if not self.over:
            self.over = True
            self._changed(self)

    def released(self) -> None:
        self.state = None
        self._released.set_result(None)
