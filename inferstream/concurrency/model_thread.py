"""A thread with an event loop for one model, so that its code does not run on the event loop of the ports."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from inspect import isawaitable
from time import perf_counter
from typing import Any, Protocol

from ..context import RequestContext
from .event_loop import new_event_loop
from .scope import ClientLeft, Scope

logger = logging.getLogger("inferstream.model")


class ThreadJob(Protocol):
    def abandon(self, error: Exception) -> None:
        """Called if the thread stopped before the job was done."""


class Crossing:
    """Passes callbacks from another thread to an event loop. One wake-up handles all pending callbacks."""

    __slots__ = ("_context", "_loop", "_ready", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: deque[Callable[[], object]] = deque()
        self._woken = False
        self._context = Context()  # a copy of a request's context would live until the next wake-up

    def send(self, callback: Callable[[], object]) -> None:
        """Call `callback`, which must not raise, on the loop. Raises RuntimeError if the loop is closed."""
        self._ready.append(callback)
        if not self._woken:
            self._woken = True  # before the call, because the loop may wake up immediately
            try:
                self._loop.call_soon_threadsafe(self._run, context=self._context)
            except RuntimeError:
                self._woken = False  # the next callback must fail, too
                raise

    def _run(self) -> None:
        self._woken = False  # set before taking the callbacks, so that none is missed
        ready = self._ready
        for _ in range(len(ready)):
            ready.popleft()()


class Work:
    """An `Occupancy` that is done when a call has left its thread.

    A `Future` would take half the time of a small call.
    """

    __slots__ = ("_callbacks", "_done")

    def __init__(self) -> None:
        self._done = False
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self._done

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        self._callbacks.append(callback)
        if self._done:
            self._run_callbacks()

    def end(self) -> None:
        self._done = True  # set before taking the callbacks, so that none is missed
        if self._callbacks:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        with suppress(IndexError):  # the other thread has taken the last one
            while True:
                self._callbacks.pop()(self)


class ModelThread:
    """Runs the coroutines of one model outside the event loop that creates this object.

    A blocking coroutine delays only this thread. It is a daemon thread, because model code that never returns
    must not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self.loop = new_event_loop()
        self.inwards, self.outwards = Crossing(self.loop), Crossing(asyncio.get_running_loop())
        self._running: set[ThreadJob] = set()
        self._lock = threading.Lock()
        self._closing = self._ended = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def calls(self) -> int:
        return len(self._running)

    def start(self, running: ThreadJob, begin: Callable[[], None]) -> None:
        """Call `begin` in the thread. Raises RuntimeError after the thread has stopped."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the model's thread has ended")
            self._running.add(running)
        self.inwards.send(begin)

    def remove(self, running: ThreadJob) -> None:
        """Remove a finished job. Called on the event loop that started it."""
        self._running.discard(running)

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        request: RequestContext | None = None,
        ran: "Ran | None" = None,
    ) -> Any:
        """Call a function in the thread, in a copy of the current context, and await its result.

        A call that is cancelled before it starts never runs. A running call is cancelled at its next `await`.
        `request.thread` is done when the call has left the thread. `ran` reports how long the call ran
        without awaiting.
        """
        call = _Call(self, function, arguments, ran)
        if request is not None:
            request.thread = call.over
        self.start(call, call.begin)
        try:
            await call.ended
        except BaseException:  # cancelled
            if request is not None:
                request.cancelled = True
            call.leave()
            raise
        if call.error is None:
            return call.value
        error, call.error = call.error, None
        try:
            raise error
        finally:
            del error  # the traceback refers to this frame: avoid the cycle

    def close(self) -> None:
        """Stop the thread after its current call, without waiting."""
        self._closing = True
        with suppress(RuntimeError):  # already closed
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._closing:
                try:
                    self.loop.run_forever()
                except BaseException as error:  # a task of the model raised SystemExit
                    logger.error(
                        "background task of a model failed: %s", type(error).__name__, exc_info=error
                    )
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:  # without tasks, `gather` uses the policy, which model code may have replaced
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            with self._lock:
                self._ended = True
            for running in [*self._running]:
                running.abandon(RuntimeError("the model's thread has ended"))
            asyncio.set_event_loop(None)
            self.loop.close()


Ran = Callable[[float | None], None]
"""Called on the caller's event loop when a call ends or first awaits.

The argument is the duration in seconds of a call that did not await, or None for a call that awaits.
"""


class _Call:
    __slots__ = (
        "_arguments",
        "_begun",
        "_context",
        "_function",
        "_left",
        "_ran",
        "_seconds",
        "_task",
        "_thread",
        "ended",
        "error",
        "over",
        "value",
    )

    def __init__(
        self, thread: ModelThread, function: Callable[..., Any], arguments: tuple[Any, ...], ran: Ran | None
    ) -> None:
        self._thread = thread
        self._function = function
        self._arguments = arguments
        self._ran = ran
        self._context = copy_context()
        self._begun = self._left = False
        self._seconds = 0.0
        self._task: asyncio.Task[None] | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = Work()

    # Called in the thread of the model.

    def begin(self) -> None:
        loop = self._thread.loop
        self._task = loop.create_task(self._run(), context=self._context)
        if self._ran is not None:
            loop.call_soon(self._report_await)  # runs after the first step of the task

    async def _run(self) -> None:
        self._begun = True
        started = perf_counter()
        try:
            if not self._left:
                self.value = self._function(*self._arguments)
                if isawaitable(self.value):
                    self.value = await self.value
        except BaseException as error:  # the caller receives every error
            self.error = error
        self._task = None
        self._seconds = perf_counter() - started
        self._finish()

    def _report_await(self) -> None:
        ran = self._ran
        if ran is not None and self._task is not None:
            self._ran = None
            with suppress(RuntimeError):  # the loop is closed
                self._thread.outwards.send(lambda: ran(None))

    def _cancel(self) -> None:
        task = self._task
        if self._begun and task is not None:
            Scope(task).end(ClientLeft())

    def abandon(self, error: Exception) -> None:
        if not self.over.done():  # otherwise `_end` is already scheduled
            self.error = error
            self._finish()

    def _finish(self) -> None:
        self.over.end()
        del self._function, self._arguments, self._context  # arguments must not outlive their call
        with suppress(RuntimeError):  # the loop is closed: the call outlived the shutdown grace period
            self._thread.outwards.send(self._end)

    # Called on the event loop of the caller.

    def leave(self) -> None:
        """Stop waiting for the call, and cancel it. If it has not started, it never runs."""
        self._left = True
        with suppress(RuntimeError):  # the thread was closed in the meantime
            self._thread.inwards.send(self._cancel)

    def _end(self) -> None:
        self._thread.remove(self)
        if self._ran is not None:
            self._ran(self._seconds)
        if self.ended.done():
            self.error = None
        else:
            self.ended.set_result(None)
