"""Responses that are created in other threads, slightly ahead of their reader on the event loop."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Any, cast

from ...concurrency.channel import ThreadChannel
from ...concurrency.model_thread import ModelThread, Work
from ...concurrency.scope import ClientLeft, Scope, is_own_cancel
from ...concurrency.threads import Threads
from ...context import request_context
from ...types import InferenceResponse
from ..call import Call
from .responses import CLOSE_LIMIT, log_cleanup_error, log_unfinished_cleanup

AHEAD = 16
"""Number of responses that may be ahead of the reader, which hides the latency of thread switches."""

REST_AFTER = 0.001
"""Interval at which a generator yields to other calls of its model, in seconds.

Each yield costs as much as a small response.
"""

CLEANUP_LIMIT = 0.05
"""Maximum time to wait for a generator's `finally` blocks when closing, in seconds. They may be blocking."""


class ThreadedResponses(ThreadChannel[InferenceResponse]):
    """An async iterator over a blocking iterator, which runs in a thread.

    Python threads cannot be interrupted. `aclose` therefore only marks the request context as cancelled and
    returns. The generator stops at its next `yield`, where its `finally` blocks run.
    """

    def __init__(self, threads: Threads, start: Callable[[], Iterable[InferenceResponse]]) -> None:
        super().__init__(AHEAD)
        self._start = start
        self._read = threading.Semaphore(0)
        self._request = request_context()
        self._request.thread = threads.submit(self._run)

    def _run(self) -> None:
        try:
            if self.open:
                self._drive()
        except StopAsyncIteration as error:  # The reader would treat this as the end.
            failure = RuntimeError("model code raised StopAsyncIteration")
            failure.__cause__ = error
            self.end(failure)
        except BaseException as error:  # The reader receives every error.
            self.end(error)
        else:
            self.end()

    def _drive(self) -> None:
        responses = iter(self._start())
        try:
            for response in responses:
                while not self.has_room():
                    self._read.acquire()
                if not self.open:
                    return
                self.put(response)
        finally:
            close = getattr(responses, "close", None)
            if close is not None:
                close()

    def _go_on(self) -> None:
        self._watched = False
        self._read.release()

    async def aclose(self) -> None:
        self._request.cancelled = True
        self.close()


class ModelThreadResponses(ThreadChannel[InferenceResponse]):
    """An async iterator on the server's event loop over a generator in the model's thread.

    `start` creates the generator in that thread. It is up to `AHEAD` items ahead of its reader. Other calls
    of the model run whenever it awaits something, waits for its reader, and every `REST_AFTER` seconds.
    `aclose` runs the generator's `finally` blocks once it does not block, and waits for up to `CLEANUP_LIMIT`
    seconds.
    """

    def __init__(self, thread: ModelThread, start: Callable[[], Any], call: Call) -> None:
        super().__init__(AHEAD)
        self._thread = thread
        self._call = call
        self._left = False
        self._start: Callable[[], Any] | None = start
        self._context = copy_context()
        self._inside = False
        self._task: asyncio.Task[None] | None = None
        self._read = asyncio.Event()
        self.over = Work()
        self._request = request_context()
        self._request.thread = self.over
        thread.start(self, self._begin)

    # Methods that run in the model's thread.

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._run(), context=self._context)
        del self._context

    async def _run(self) -> None:
        try:
            await self._drive()
        except BaseException as error:  # The reader receives every error.
            if self._left and not is_own_cancel(error):
                log_cleanup_error(self._call, error)
            self._finish_call(error)
        else:
            self._finish_call(None)

    async def _drive(self) -> None:
        start, self._start = self._start, None
        if not self.open or start is None:
            return
        made = start()
        responses = aiter(await made if inspect.isawaitable(made) else made)
        rested = 0.0  # The first response is sent immediately, because its client waits for it.
        following = responses.__anext__
        try:
            while self.open:
                self._inside = True
                try:
                    response = await following()
                except StopAsyncIteration:
                    return
                finally:
                    self._inside = False
                self.put(response)
                del response
                if not self.has_room() or perf_counter() - rested > REST_AFTER:
                    following = responses.__anext__
                    try:
                        await self._rest()
                    except asyncio.CancelledError as cancel:  # From a scope that is open at the `yield`.
                        following = partial(cast(Any, responses).athrow, cancel)
                    rested = perf_counter()
        finally:
            close = getattr(responses, "aclose", None)
            if close is not None:
                await self._finish(close)

    async def _finish(self, close: Callable[[], Awaitable[None]]) -> None:
        limit = asyncio.timeout(CLOSE_LIMIT)
        try:
            async with limit:
                await close()
        finally:
            if limit.expired():
                log_unfinished_cleanup(self._call)

    async def _rest(self) -> None:
        """Let other calls of the model run, and wait until the reader has caught up."""
        await asyncio.sleep(0)
        while not self.has_room():
            self._read.clear()
            if not self.has_room():
                await self._read.wait()

    def _leave(self) -> None:
        self._read.set()
        task = self._task
        # The generator is awaiting, because this code could not run while it blocks.
        if self._inside and task is not None:
            Scope(task).end(ClientLeft())

    def abandon(self, error: Exception) -> None:
        if not self.over.done():
            self._finish_call(error)

    def _finish_call(self, error: BaseException | None) -> None:
        self._task = None
        self.over.end()
        self.end(error)

    def _wake(self) -> None:
        try:
            self._thread.outwards.send(self._resume)
        except RuntimeError:
            self.open = False  # The loop was closed: the thread exceeded the shutdown grace period.

    # Methods that run on the server's event loop.

    def _resume(self) -> None:
        if self.ended:
            self._thread.remove(self)
        super()._resume()

    def _go_on(self) -> None:
        self._watched = False
        with suppress(RuntimeError):  # The thread and the generator have ended.
            self._thread.inwards.send(self._read.set)

    async def aclose(self) -> None:
        self._request.cancelled = self._left = True
        self.close()
        if not self.ended:
            with suppress(RuntimeError):
                self._thread.inwards.send(self._leave)
            over = asyncio.Event()
            self.over.add_done_callback(partial(self._tell, over))
            with suppress(TimeoutError):
                async with asyncio.timeout(CLEANUP_LIMIT):
                    await over.wait()

    def _tell(self, over: asyncio.Event, _: Work) -> None:
        with suppress(RuntimeError):  # The loop was closed.
            self._thread.outwards.send(over.set)
