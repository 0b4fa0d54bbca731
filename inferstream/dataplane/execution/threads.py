"""Responses that other threads make, a few ahead of their reader on the event loop."""

import asyncio
import inspect
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import copy_context
from time import perf_counter
from typing import Any

from ...concurrency.model_thread import ModelThread
from ...context import request_context
from ...types import InferenceResponse

AHEAD = 8
"""Responses that may be made before they are read: enough to hide the switch between threads."""

LIGHT = 0.0003
"""Seconds that a stretch of a coroutine may take on the server's event loop."""

CLEANUP_LIMIT = 0.05
"""Seconds that closing waits for the `finally` of a generator, which may be blocking."""


class ReadAhead(AsyncIterator[InferenceResponse]):
    """The reader's half. A thread appends to `_items` and wakes the reader, or sets `_done` and perhaps `_error`."""

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
        """The reader has taken a response, so there is room for another."""

    def _wake(self, resume: Callable[[], None] | None = None) -> None:
        """Let the event loop read on; called in the thread."""
        try:
            self._loop.call_soon_threadsafe(resume or self._resume)
        except RuntimeError:
            self._closed = True  # the loop was closed: the generator outlived the shutdown grace

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
                # Made between the check above and the assignment of the reader.
                self._reader = None
                continue
            try:
                await self._reader
            finally:
                self._reader = None

    def _end(self) -> BaseException:
        """The error that ended it. A stored error would be a reference cycle."""
        error, self._error = self._error, None
        return error or StopAsyncIteration()


class ThreadedResponses(ReadAhead):
    """An async iterator over a blocking one.

    Python cannot interrupt a thread. So `aclose` only sets the request context and returns; the generator ends at its
    next `yield`, where its `finally` runs.
    """

    def __init__(self, executor: Executor, start: Callable[[], Iterable[InferenceResponse]]) -> None:
        super().__init__()
        self._start = start
        self._room = threading.Semaphore(AHEAD)
        self._request.thread = executor.submit(copy_context().run, self._run)

    def _run(self) -> None:
        try:
            if not self._closed:
                self._drive()
        except BaseException as error:  # the reader gets every error
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

    def _took(self) -> None:
        self._room.release()

    async def aclose(self) -> None:
        self._closed = self._request.cancelled = True
        self._items.clear()
        self._room.release()


class ModelThreadResponses(ReadAhead):
    """An async iterator on the server's loop over one in the model's thread.

    `start` makes the generator there; `begun` is one from elsewhere. The generator is up to `AHEAD` items ahead of its
    reader, and other calls of its model run after each item. `aclose` runs the generator's `finally` when the
    generator does not block, and waits for that up to `CLEANUP_LIMIT`.
    """

    def __init__(
        self,
        thread: ModelThread,
        start: Callable[[], Any] | None = None,
        begun: AsyncIterator[InferenceResponse] | None = None,
    ) -> None:
        super().__init__()
        self._thread = thread
        self._start = start
        self._responses: Any = begun
        self._inside = False
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._full = False
        self.items = 0
        """Items so far."""
        self.light = 0
        """Items that would not have held the server's event loop noticeably."""
        self.over: Future[None] = Future()
        self._request.thread = self.over
        thread.start(self, self._begin)

    # In the model's thread.

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._drive()
        except BaseException as error:  # the reader gets every error
            self._error = error
        finally:
            self._task = None
            self._let_go()

    async def _drive(self) -> None:
        try:
            if self._responses is None and not self._closed:
                assert self._start is not None
                made = self._start()
                self._responses = aiter(await made if inspect.isawaitable(made) else made)
            while not self._closed:
                self._inside = True
                started = perf_counter()
                try:
                    response = await self._responses.__anext__()
                except StopAsyncIteration:
                    return
                finally:
                    self._inside = False
                self.items += 1
                self.light += perf_counter() - started < LIGHT
                self._items.append(response)
                del response
                if self._reader is not None:
                    self._wake()
                await self._rest()
        finally:
            close = getattr(self._responses, "aclose", None)
            if close is not None:
                await close()

    async def _rest(self) -> None:
        """Let other calls of the model run, and wait until the reader has caught up."""
        await asyncio.sleep(0)
        while len(self._items) >= AHEAD and not self._closed:
            self._room.clear()
            self._full = True
            if len(self._items) >= AHEAD and not self._closed:
                await self._room.wait()

    def _leave(self) -> None:
        self._room.set()
        if self._inside and self._task is not None:
            self._task.cancel()  # it is awaiting: a blocking generator would not let this run

    def abandoned(self, error: Exception) -> None:
        if not self.over.done():
            self._error = error
            self._let_go()

    def _let_go(self) -> None:
        self._done = True
        self.over.set_result(None)
        self._wake(self._ended)

    # On the server's loop.

    def _ended(self) -> None:
        self._thread.ended(self)
        self._resume()

    def _took(self) -> None:
        if self._full:
            self._full = False
            with suppress(RuntimeError):  # the thread and the generator have ended
                self._thread.loop.call_soon_threadsafe(self._room.set)

    async def aclose(self) -> None:
        self._closed = self._request.cancelled = True
        self._items.clear()
        if not self._done:
            with suppress(RuntimeError):
                self._thread.loop.call_soon_threadsafe(self._leave)
            await asyncio.wait([asyncio.wrap_future(self.over)], timeout=CLEANUP_LIMIT)
