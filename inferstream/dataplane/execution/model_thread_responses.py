"""Runs an async generator that blocks in its model's own thread, at the pace of its reader."""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from time import perf_counter
from typing import Any

from ...context import request_context
from ...model_thread import ModelThread
from ...types import InferenceResponse
from .threads import AHEAD

LIGHT = 0.0003
"""Seconds that a stretch of a coroutine may take if it is to run on the server's event loop."""


CLOSE_LIMIT = 0.05
"""Seconds that closing waits for a generator, which may block right now, to run its `finally`."""


class ModelThreadResponses(AsyncIterator[InferenceResponse]):
    """An async iterator, on the server's loop, over one that runs in the model's thread.

    The generator is up to `AHEAD` items ahead of its reader, and lets other calls of its model run after
    each item. Closing it runs the generator's `finally` as soon as the generator does not block, which
    nothing can interrupt; it waits for that, but not for long.
    """

    def __init__(self, thread: ModelThread, start: Callable[[], Any]) -> None:
        self._home = asyncio.get_running_loop()
        self._thread = thread
        self._start = start
        self._items: deque[InferenceResponse] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._closed = False
        self._done = False
        self._error: BaseException | None = None
        self._inside = False
        self._begun = False
        self._task: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None
        self._full = False
        self.items = 0
        """Items that have been made."""
        self.light = 0
        """Of these, the ones that would not have held the server's event loop noticeably."""
        self._request = request_context()
        self.over: Future[None] = Future()
        self._request.thread = self.over
        thread.calls += 1
        thread.loop.call_soon_threadsafe(self._begin, context=copy_context())

    # In the model's thread.

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._run())

    async def _run(self) -> None:
        self._begun = True
        self._room = asyncio.Event()
        try:
            if not self._closed:
                await self._drive()
        except BaseException as error:  # the reader gets it, whatever it is
            self._error = error
        finally:
            self._done = True
            self.over.set_result(None)
            self._call_home(self._ended)

    async def _drive(self) -> None:
        responses = self._start()
        if inspect.isawaitable(responses):
            responses = await responses
        responses = aiter(responses)
        try:
            while not self._closed:
                self._inside = True
                started = perf_counter()
                try:
                    response = await responses.__anext__()
                except StopAsyncIteration:
                    return
                finally:
                    self._inside = False
                self.items += 1
                self.light += perf_counter() - started < LIGHT
                self._items.append(response)
                del response
                if self._reader is not None:
                    self._call_home(self._resume)
                await self._rest()
        finally:
            close = getattr(responses, "aclose", None)
            if close is not None:
                await close()

    async def _rest(self) -> None:
        """Wait until the reader has caught up; let other calls of the model run in any case."""
        assert self._room is not None
        await asyncio.sleep(0)
        while len(self._items) >= AHEAD and not self._closed:
            self._room.clear()
            self._full = True
            if len(self._items) >= AHEAD and not self._closed:
                await self._room.wait()

    def _leave(self) -> None:
        if self._room is not None:
            self._room.set()
        if self._begun and self._inside and self._task is not None:
            self._task.cancel()  # it waits for something; one that blocks is not here

    def _call_home(self, function: Callable[[], None]) -> None:
        try:
            self._home.call_soon_threadsafe(function)
        except RuntimeError:
            self._closed = True  # the loop has closed under a generator that outlived the shutdown grace

    # On the server's loop.

    def _resume(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _ended(self) -> None:
        self._thread.calls -= 1
        self._resume()

    async def __anext__(self) -> InferenceResponse:
        while True:
            if self._items:
                response = self._items.popleft()
                if self._full:
                    self._full = False
                    assert self._room is not None
                    self._thread.loop.call_soon_threadsafe(self._room.set)
                return response
            if self._done and not self._items:
                raise self._end()
            self._reader = self._home.create_future()
            if self._items or self._done:
                # Made between the look above and the announcement of the reader.
                self._reader = None
                continue
            try:
                await self._reader
            finally:
                self._reader = None

    def _end(self) -> BaseException:
        """What ended it, handed over to be raised: kept here, it would keep its frames, and they this."""
        error, self._error = self._error, None
        return error or StopAsyncIteration()

    async def aclose(self) -> None:
        self._closed = self._request.cancelled = True
        self._items.clear()
        if not self._done:
            with suppress(RuntimeError):  # the thread has been closed meanwhile
                self._thread.loop.call_soon_threadsafe(self._leave)
            await asyncio.wait([asyncio.wrap_future(self.over)], timeout=CLOSE_LIMIT)
