"""A thread with an event loop for one model, for coroutines that may block it."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from inspect import isawaitable
from time import perf_counter
from typing import Any, Protocol

from ..context import RequestContext
from .event_loop import new_event_loop

logger = logging.getLogger("inferstream.model")


class ThreadJob(Protocol):
    def abandoned(self, error: Exception) -> None:
        """The thread ended before this work did."""


class ModelThread:
    """Runs the coroutines of one model away from the server's event loop.

    A coroutine that blocks holds up only this thread. The thread is a daemon: model code that never returns must
    not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self.loop = new_event_loop()
        self._running: set[ThreadJob] = set()
        self._lock = threading.Lock()
        self._closing = self._ended = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def calls(self) -> int:
        return len(self._running)

    def start(self, running: ThreadJob, begin: Callable[[], None]) -> None:
        """Call `begin` in the thread, in a copy of this context. Raises RuntimeError after the thread has ended."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the model's thread has ended")
            self._running.add(running)
        self.loop.call_soon_threadsafe(begin, context=copy_context())

    def ended(self, running: ThreadJob) -> None:
        """Forget finished work. The event loop that started it calls this."""
        self._running.discard(running)

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        request: RequestContext | None = None,
        took: Callable[[float], None] | None = None,
    ) -> Any:
        """Call a function in the thread, in a copy of this context, and await its result.

        A cancelled call that has not begun never begins. A call that runs is cancelled at its next await.
        `request.thread` is done when the call has left the thread. `took` gets the seconds.
        """
        call = _Call(self, function, arguments)
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
        if took is not None:
            took(call.seconds)
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
            if (
                tasks
            ):  # gather asks for this thread's loop otherwise, and model code may have replaced the policy
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            with self._lock:
                self._ended = True
            for running in [*self._running]:
                running.abandoned(RuntimeError("the model's thread has ended"))
            asyncio.set_event_loop(None)
            self.loop.close()


class _Call:
    __slots__ = (
        "_arguments",
        "_begun",
        "_function",
        "_home",
        "_left",
        "_task",
        "_thread",
        "ended",
        "error",
        "over",
        "seconds",
        "value",
    )

    def __init__(self, thread: ModelThread, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._thread = thread
        self._function = function
        self._arguments = arguments
        self._home = asyncio.get_running_loop()
        self._begun = self._left = False
        self._task: asyncio.Task[None] | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self.ended: asyncio.Future[None] = self._home.create_future()
        self.over: Future[None] = Future()

    def begin(self) -> None:
        self._task = self._thread.loop.create_task(self._run())

    def leave(self) -> None:
        """The caller no longer waits. A call checks this before it begins."""
        self._left = True
        with suppress(RuntimeError):  # the thread was closed meanwhile
            self._thread.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._begun and self._task is not None:
            self._task.cancel()

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
        self.seconds = perf_counter() - started
        self._task = None
        self._let_go()

    def abandoned(self, error: Exception) -> None:
        if not self.over.done():  # otherwise `_end` is already scheduled
            self.error = error
            self._let_go()

    def _let_go(self) -> None:
        self.over.set_result(None)
        del self._function, self._arguments  # arguments must not outlive their call
        try:
            self._home.call_soon_threadsafe(self._end)
        except RuntimeError:
            return  # the loop was closed: the call outlived the shutdown grace

    def _end(self) -> None:
        self._thread.ended(self)
        if self.ended.done():
            self.error = None
        else:
            self.ended.set_result(None)
