"""A thread with an event loop for one model, whose code never runs on the loop that serves the ports."""

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
    def abandoned(self, error: Exception) -> None:
        """The thread ended before this work did."""


class Crossing:
    """Callbacks from another thread to an event loop. One wake-up of the loop carries all that are ready."""

    __slots__ = ("_context", "_loop", "_ready", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: deque[Callable[[], object]] = deque()
        self._woken = False
        self._context = Context()  # the copied one of a request would live until the next wake-up

    def send(self, callback: Callable[[], object]) -> None:
        """Call `callback`, which must not raise, on the loop. Raises RuntimeError if the loop is closed."""
        self._ready.append(callback)
        if not self._woken:
            self._woken = True  # before the call: the loop may wake at once
            try:
                self._loop.call_soon_threadsafe(self._run, context=self._context)
            except RuntimeError:
                self._woken = False  # the next one is to learn of it too
                raise

    def _run(self) -> None:
        self._woken = False  # before the callbacks are taken, so that none is appended unseen
        ready = self._ready
        for _ in range(len(ready)):
            ready.popleft()()


class Work:
    """An `Occupancy`: whether work has left its thread. A `Future` costs half of a small call."""

    __slots__ = ("_callbacks", "_done")

    def __init__(self) -> None:
        self._done = False
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self._done

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        self._callbacks.append(callback)
        if self._done:
            self._tell()

    def end(self) -> None:
        self._done = True  # before the callbacks are taken, so that none is appended unseen
        if self._callbacks:
            self._tell()

    def _tell(self) -> None:
        with suppress(IndexError):  # the other thread has taken the last
            while True:
                self._callbacks.pop()(self)


class ModelThread:
    """Runs the coroutines of one model away from the event loop that makes this object.

    A coroutine that blocks holds up only this thread. The thread is a daemon: model code that never returns must
    not keep the process alive.
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
        """Call `begin` in the thread. Raises RuntimeError after the thread has ended."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the model's thread has ended")
            self._running.add(running)
        self.inwards.send(begin)

    def ended(self, running: ThreadJob) -> None:
        """Forget finished work. The event loop that started it calls this."""
        self._running.discard(running)

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        request: RequestContext | None = None,
        ran: "Ran | None" = None,
    ) -> Any:
        """Call a function in the thread, in a copy of this context, and await its result.

        A cancelled call that has not begun never begins. A call that runs is cancelled at its next await.
        `request.thread` is done when the call has left the thread. `ran` learns of its first stretch.
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
            del error  # its traceback refers to this frame, which would be a cycle

    def close(self) -> None:
        """End the thread after its current call; does not wait for that."""
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
                    logger.error("a task of a model ended with %s", type(error).__name__, exc_info=error)
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:  # else gather asks for this thread's loop, and model code may have replaced the policy
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            with self._lock:
                self._ended = True
            for running in [*self._running]:
                running.abandoned(RuntimeError("the model's thread has ended"))
            asyncio.set_event_loop(None)
            self.loop.close()


Ran = Callable[[float | None], None]
"""Called on the event loop of the caller with the seconds of a call that did not await; with None when one awaits."""


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

    # In the model's thread.

    def begin(self) -> None:
        loop = self._thread.loop
        self._task = loop.create_task(self._run(), context=self._context)
        if self._ran is not None:
            loop.call_soon(self._look)  # runs after the first stretch of the task

    async def _run(self) -> None:
        self._begun = True
        started = perf_counter()
        try:
            if not self._left:
                self.value = self._function(*self._arguments)
                if isawaitable(self.value):
                    self.value = await self.value
        except BaseException as error:  # the caller gets every error
            self.error = error
        self._task = None
        self._seconds = perf_counter() - started
        self._let_go()

    def _look(self) -> None:
        ran = self._ran
        if ran is not None and self._task is not None:
            self._ran = None
            with suppress(RuntimeError):  # the loop was closed
                self._thread.outwards.send(lambda: ran(None))

    def _cancel(self) -> None:
        task = self._task
        if self._begun and task is not None:
            Scope(task).end(ClientLeft())

    def abandoned(self, error: Exception) -> None:
        if not self.over.done():  # otherwise `_end` is already scheduled
            self.error = error
            self._let_go()

    def _let_go(self) -> None:
        self.over.end()
        del self._function, self._arguments, self._context  # arguments must not outlive their call
        with suppress(RuntimeError):  # the loop was closed: the call outlived the shutdown grace
            self._thread.outwards.send(self._end)

    # On the event loop of the caller.

    def leave(self) -> None:
        """The caller no longer waits. A call checks this before it begins."""
        self._left = True
        with suppress(RuntimeError):  # the thread was closed meanwhile
            self._thread.inwards.send(self._cancel)

    def _end(self) -> None:
        self._thread.ended(self)
        if self._ran is not None:
            self._ran(self._seconds)
        if self.ended.done():
            self.error = None
        else:
            self.ended.set_result(None)
