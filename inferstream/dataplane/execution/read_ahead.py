"""Responses that are made in another thread, a few ahead of their reader on the event loop."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable

from ...context import request_context
from ...types import InferenceResponse

AHEAD = 8
"""Responses that may be made before they are read: enough to hide the way between the threads."""


class ReadAhead(AsyncIterator[InferenceResponse]):
    """The reader's half: a thread appends to `_items` and wakes the reader, or sets `_done` and perhaps `_error`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: deque[InferenceResponse] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._closed = False
        self._done = False
        self._error: BaseException | None = None
        self._request = request_context()

    @abstractmethod
    def _took(self) -> None:
        """The reader has taken a response, so there is room for one more."""

    def _wake(self, resume: Callable[[], None] | None = None) -> None:
        """Let the event loop go on reading; called in the thread."""
        try:
            self._loop.call_soon_threadsafe(resume or self._resume)
        except RuntimeError:
            self._closed = True  # the loop has closed under a generator that outlived the shutdown grace

    def _resume(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def __anext__(self) -> InferenceResponse:
        while True:
            if self._items:
                response = self._items.popleft()
                self._took()
                return response
            if self._done and not self._items:
                raise self._end()
            self._reader = self._loop.create_future()
            if self._items or self._done:
                # Made between the look above and the announcement of the reader.
                self._reader = None
                continue
            try:
                await self._reader
            finally:
                self._reader = None

    def _end(self) -> BaseException:
        """What ended it. It is handed over to be raised: a reference to it from here would be a cycle."""
        error, self._error = self._error, None
        return error or StopAsyncIteration()
