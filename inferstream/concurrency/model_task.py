"""`ModelTask`, which runs model code as a separate task without an event loop iteration for each step."""

import asyncio
import builtins
from asyncio.tasks import _enter_task, _leave_task  # documented for third-party task implementations
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from functools import lru_cache
from types import CodeType, GeneratorType, coroutine
from typing import Any, NamedTuple

from .scope import is_own_cancel


class Outcome(NamedTuple):
    """The result or exception of model code. A future cannot hold every exception."""

    value: Any
    error: BaseException | None


@lru_cache(1024)
def needs_task(code: CodeType) -> bool:
    """Whether a coroutine or async generator could observe the task and context that run it.

    It cannot if it refers only to built-in names. Skipping the task then saves 1 µs per step.
    """
    return bool(code.co_freevars) or not all(hasattr(builtins, name) for name in code.co_names)


def iterate_awaitable(awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
    """Return the iterator that `await` would use."""
    return awaitable if isinstance(awaitable, GeneratorType) else awaitable.__await__()


class ModelTask:
    """The current task of model code while another task, the host, awaits it.

    If an asyncio or anyio scope expires, it cancels the model code, not the host, which serves a client. The
    steps of a stream have the same task and `context` in any host. A `context` of None means the context of
    the host.

    It implements the task interface in https://docs.python.org/3/library/asyncio-extending.html. It is not a
    future, because that would add 0.4 µs to each request.
    """

    _context: Context | None = None
    _coro: Any = None
    _host: asyncio.Task[Any] | None = None
    _cancels = 0
    _done = _must_cancel = False
    _message: Any = None  # anyio recognises its cancellations by their messages
    _fut_waiter: Any = None  # named as in asyncio, because anyio reads it

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @coroutine
    def run(self, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
        """Await `awaitable` as this task."""
        loop, context = self._loop, self._context
        host: Any = asyncio.current_task(loop)
        steps = iterate_awaitable(awaitable)
        self._host, self._coro = host, awaitable
        step: Callable[[Any], Any] = steps.send
        argument: BaseException | None = None
        try:
            while True:
                if self._must_cancel:
                    step, argument = steps.throw, self._take_cancel()
                _leave_task(loop, host)
                _enter_task(loop, self)  # type: ignore[arg-type]
                try:
                    waits_for = step(argument) if context is None else context.run(step, argument)
                except StopIteration as end:
                    return end.value
                finally:
                    _leave_task(loop, self)  # type: ignore[arg-type]
                    _enter_task(loop, host)
                    argument = None  # the traceback of an error refers to this frame: avoid the cycle
                self._fut_waiter = waits_for
                try:
                    yield waits_for
                    step = steps.send
                except GeneratorExit:  # the host is no longer running
                    steps.close()
                    raise
                except BaseException as error:  # every error is raised in the model code
                    step, argument = steps.throw, error
                self._fut_waiter = None
        finally:
            # A cancellation that ends the host refers to this frame: avoid the cycle.
            self._host = self._coro = self._fut_waiter = host = None

    def cancel(self, msg: Any | None = None) -> bool:
        if self._done:
            return False
        self._cancels += 1
        if self._fut_waiter is None or not self._fut_waiter.cancel(msg=msg):
            self._must_cancel, self._message = True, msg
            if self._host is None:
                self._loop.call_soon(self.interrupt)
        return True

    def _take_cancel(self) -> asyncio.CancelledError:
        self._must_cancel = False
        return asyncio.CancelledError() if self._message is None else asyncio.CancelledError(self._message)

    def interrupt(self) -> None:
        """Called after a cancellation between two steps."""

    def cancelling(self) -> int:
        """Return the number of pending cancellations of this task and of its host."""
        return self._cancels + (0 if self._host is None else self._host.cancelling())

    def uncancel(self) -> int:
        self._cancels = max(self._cancels - 1, 0)
        if not self._cancels:
            self._must_cancel = False
        return self.cancelling()

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return False

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def get_name(self) -> str:
        return f"model-{id(self):x}"

    def get_coro(self) -> Any:
        return self._coro

    def get_context(self) -> Context | None:
        return self._context

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Call `callback` when the host, which awaits this task, is done."""
        host = self._host
        assert host is not None, "a task of model code gets its callbacks while it runs"
        host.add_done_callback(lambda _: callback(self), context=context)


def run_as_task(awaitable: Awaitable[Any], loop: asyncio.AbstractEventLoop | None = None) -> Awaitable[Any]:
    """Await model code as a separate task, in the caller's context. `loop` must be the running loop."""
    return ModelTask(loop or asyncio.get_running_loop()).run(awaitable)


async def run_to_outcome(awaitable: Awaitable[Any]) -> Outcome:
    """Await model code. Cancellation of the current task is raised, and everything else is returned."""
    try:
        return Outcome(await awaitable, None)
    except BaseException as error:  # model code may raise anything
        # No local variable holds the task: the error is its result, and the traceback refers to this frame.
        if is_own_cancel(error):
            raise
        return Outcome(None, error)
