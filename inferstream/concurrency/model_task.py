"""`ModelTask`: model code as a task of its own, without a turn of the event loop for each step."""

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # documented for tasks of other packages
from collections.abc import Awaitable, Generator
from contextvars import Context
from types import coroutine
from typing import Any, NamedTuple

from .scope import is_own_cancel


class Outcome(NamedTuple):
    """The result or the exception of model code; a future cannot hold every exception."""

    value: Any
    error: BaseException | None


class ModelTask(asyncio.Future[None]):
    """The current task of model code, while another task, the host, awaits it.

    A scope of asyncio or anyio that expires cancels the model code, and never the host, which serves a client. The
    steps of a stream have the same task and `context` whichever host runs them. `context` is None for that of the host.

    It is a task as https://docs.python.org/3/library/asyncio-extending.html describes it, with a task's methods.
    """

    __slots__ = ("_cancels", "_context", "_fut_waiter", "_host", "_must_cancel", "_name", "_running")

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._context = context
        self._host: Any = None
        self._cancels = 0
        self._must_cancel = self._running = False
        self._fut_waiter: Any = None  # the names of asyncio, because anyio reads them

    @coroutine
    def run(self, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
        """Await `awaitable` as this task."""
        loop, context = self._loop, self._context
        steps: Any = awaitable.__await__() if hasattr(awaitable, "__await__") else awaitable  # a generator
        self._host = host = asyncio.current_task(loop)
        assert host is not None
        thrown: BaseException | None = None
        self._running = True
        try:
            while True:
                if self._must_cancel:
                    self._must_cancel = False
                    thrown = asyncio.CancelledError()
                step, argument = (steps.send, None) if thrown is None else (steps.throw, thrown)
                thrown = None
                _leave_task(loop, host)
                _enter_task(loop, self)  # type: ignore[arg-type]
                try:
                    waits_for = step(argument) if context is None else context.run(step, argument)
                except StopIteration as end:
                    return end.value
                finally:
                    _leave_task(loop, self)  # type: ignore[arg-type]
                    _enter_task(loop, host)
                    del (
                        step,
                        argument,
                    )  # the traceback of an error refers to this frame, which would be a cycle
                self._fut_waiter = waits_for
                try:
                    yield waits_for
                except GeneratorExit:  # nobody runs the host any more
                    steps.close()
                    raise
                except BaseException as error:  # the model gets every one
                    thrown = error
                self._fut_waiter = None
        finally:
            self._running = False
            self._host = self._fut_waiter = None

    def cancel(self, msg: Any | None = None) -> bool:
        if self.done():
            return False
        self._cancels += 1
        if self._fut_waiter is None or not self._fut_waiter.cancel(msg=msg):
            self._must_cancel = True
            if not self._running:
                self._loop.call_soon(self.interrupt)
        return True

    def interrupt(self) -> None:
        """Called after a cancel between two steps."""

    def cancelling(self) -> int:
        """The cancels of this task and of its host."""
        return self._cancels + (0 if self._host is None else self._host.cancelling())

    def uncancel(self) -> int:
        self._cancels = max(self._cancels - 1, 0)
        if not self._cancels:
            self._must_cancel = False
        return self.cancelling()

    def get_name(self) -> str:
        return getattr(self, "_name", f"model-{id(self):x}")

    def set_name(self, value: object) -> None:
        self._name = str(value)

    def get_coro(self) -> None:
        return None

    def get_context(self) -> Context | None:
        return self._context

    def get_stack(self, *, limit: int | None = None) -> list[Any]:
        return []


def run_as_task(awaitable: Awaitable[Any]) -> Awaitable[Any]:
    """Await model code as a task of its own, in the context of the caller."""
    return ModelTask().run(awaitable)


async def outcome_of(awaitable: Awaitable[Any]) -> Outcome:
    """Await model code. A cancel of the current task is raised, everything else returned."""
    try:
        return Outcome(await awaitable, None)
    except BaseException as error:  # model code may raise anything
        # No local holds the task: the error is the result of the task, and its traceback refers to this frame.
        if is_own_cancel(error):
            raise
        return Outcome(None, error)
