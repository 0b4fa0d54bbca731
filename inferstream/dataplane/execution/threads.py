"""Responses that other threads make, a few ahead of their reader on the event loop."""

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
from .responses import CLOSE_LIMIT, cleanup_failed, cleanup_lingers

AHEAD = 16
"""Responses that may be made before they are read: enough to hide the switch between threads."""

REST_AFTER = 0.001
"""Seconds after which a generator lets other calls of its model run: each time costs as much as a small response."""

CLEANUP_LIMIT = 0.05
"""Seconds that closing waits for the `finally` of a generator, which may be blocking."""


class ThreadedResponses(ThreadChannel[InferenceResponse]):
    """An async iterator over a blocking one.

    Python cannot interrupt a thread. So `aclose` only sets the request context and returns; the generator ends at its
    next `yield`, where its `finally` runs.
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
        except StopAsyncIteration as error:  # the reader would take it for the end
            failure = RuntimeError("model code raised StopAsyncIteration")
            failure.__cause__ = error
            self.end(failure)
        except BaseException as error:  # the reader gets every error
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
    """An async iterator on the server's loop over one in the model's thread, which `start` makes there.

    The generator is up to `AHEAD` items ahead of its reader. Other calls of its model run when it waits, for its reader
    too, and every `REST_AFTER` seconds. `aclose` runs the generator's `finally` when the generator does not block, and
    waits for that up to `CLEANUP_LIMIT`.
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

    # In the model's thread.

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._run(), context=self._context)
        del self._context

    async def _run(self) -> None:
        try:
            await self._drive()
        except BaseException as error:  # the reader gets every error
            if self._left and not is_own_cancel(error):
                cleanup_failed(self._call, error)
            self._let_go(error)
        else:
            self._let_go(None)

    async def _drive(self) -> None:
        start, self._start = self._start, None
        if not self.open or start is None:
            return
        made = start()
        responses = aiter(await made if inspect.isawaitable(made) else made)
        rested = 0.0  # the first response crosses alone: its client waits for it
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
                    except asyncio.CancelledError as cancel:  # of a scope that is open at the `yield`
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
                cleanup_lingers(self._call)

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
        if self._inside and task is not None:  # it is awaiting: a blocking generator would not let this run
            Scope(task).end(ClientLeft())

    def abandoned(self, error: Exception) -> None:
        if not self.over.done():
            self._let_go(error)

    def _let_go(self, error: BaseException | None) -> None:
        self._task = None
        self.over.end()
        self.end(error)

    def _wake(self) -> None:
        try:
            self._thread.outwards.send(self._resume)
        except RuntimeError:
            self.open = False  # the loop was closed: the thread outlived the shutdown grace

    # On the server's loop.

    def _resume(self) -> None:
        if self.ended:
            self._thread.ended(self)
        super()._resume()

    def _go_on(self) -> None:
        self._watched = False
        with suppress(RuntimeError):  # the thread and the generator have ended
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
        with suppress(RuntimeError):  # the loop was closed
            self._thread.outwards.send(over.set)
