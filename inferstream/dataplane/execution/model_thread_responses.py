"""Runs an async generator that blocks in its model's own thread, at the pace of its reader."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import suppress
from time import perf_counter
from typing import Any

from ...concurrency.model_thread import ModelThread
from ...types import InferenceResponse
from .read_ahead import AHEAD, ReadAhead

LIGHT = 0.0003
"""Seconds that a stretch of a coroutine may take if it is to run on the server's event loop."""

CLEANUP_LIMIT = 0.05
"""Seconds that closing waits for a generator, which may block right now, to run its `finally`."""


class ModelThreadResponses(ReadAhead):
    """An async iterator, on the server's loop, over one that runs in the model's thread.

    `start` makes the generator there, or it is one that has `begun` elsewhere. The generator is up to
    `AHEAD` items ahead of its reader, and other calls of its model run after each item. Closing it runs
    the generator's `finally` as soon as the generator does not block, which nothing can interrupt; it
    waits for that, but not for long.
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
        """Items that have been made."""
        self.light = 0
        """Of these, the ones that would not have held the server's event loop noticeably."""
        self.over: Future[None] = Future()
        self._request.thread = self.over
        thread.start(self, self._begin)

    # In the model's thread.

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._drive()
        except BaseException as error:  # the reader gets it, whatever it is
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
        """Wait until the reader has caught up; let other calls of the model run in any case."""
        await asyncio.sleep(0)
        while len(self._items) >= AHEAD and not self._closed:
            self._room.clear()
            self._full = True
            if len(self._items) >= AHEAD and not self._closed:
                await self._room.wait()

    def _leave(self) -> None:
        self._room.set()
        if self._inside and self._task is not None:
            self._task.cancel()  # it waits for something; one that blocks is not here

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
            with suppress(RuntimeError):  # the thread has ended, and so has the generator
                self._thread.loop.call_soon_threadsafe(self._room.set)

    async def aclose(self) -> None:
        self._closed = self._request.cancelled = True
        self._items.clear()
        if not self._done:
            with suppress(RuntimeError):
                self._thread.loop.call_soon_threadsafe(self._leave)
            await asyncio.wait([asyncio.wrap_future(self.over)], timeout=CLEANUP_LIMIT)
