"""Runs a blocking generator in a thread, at the pace of its reader."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from contextvars import copy_context

from ...context import request_context
from ...types import InferenceResponse

AHEAD = 8
"""Items a blocking generator may be ahead of its reader: enough to hide the hop, little to throw away."""


class ThreadedResponses(AsyncIterator[InferenceResponse]):
    """An async iterator over a blocking one.

    Closing it makes the generator end at its next `yield`, where its `finally` runs, and tells it through
    its request context; Python offers no way to interrupt a thread, so closing does not wait for it.
    """

    def __init__(self, executor: Executor, start: Callable[[], Iterable[InferenceResponse]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = start
        self._items: deque[InferenceResponse] = deque()
        self._room = threading.Semaphore(AHEAD)
        self._reader: asyncio.Future[None] | None = None
        self._closed = False
        self._done = False
        self._error: BaseException | None = None
        self._request = request_context()
        self._request.thread = executor.submit(copy_context().run, self._run)

    def _run(self) -> None:
        try:
            if not self._closed:
                self._drive()
        except BaseException as error:  # the reader gets it, whatever it is
            self._error = error
        finally:
            self._done = True
            self._wake()

    def _drive(self) -> None:
        responses = iter(self._start())
        try:
            for response in responses:
                self._room.acquire()
                if self._closed:
                    return
                self._items.append(response)
                if self._reader is not None:
                    self._wake()
        finally:
            close = getattr(responses, "close", None)
            if close is not None:
                close()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._resume)
        except RuntimeError:
            # The loop has closed under a generator that outlived the shutdown grace.
            self._closed = True

    def _resume(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def __anext__(self) -> InferenceResponse:
        while True:
            if self._items:
                self._room.release()
                return self._items.popleft()
            if self._done and not self._items:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._reader = self._loop.create_future()
            if self._items or self._done:
                # Produced between the look above and the announcement of the reader.
                self._reader = None
                continue
            try:
                await self._reader
            finally:
                self._reader = None

    async def aclose(self) -> None:
        self._closed = self._request.cancelled = True
        self._items.clear()
        self._room.release()
