"""Threads for the blocking code of a model."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from ..context import request_context
from .model_task import Outcome
from .model_thread import ModelThread

R = TypeVar("R")

THREADS = 64
"""The default number of threads of a model."""

ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions that stop generators and coroutines.

A future cannot hold a StopIteration, and a GeneratorExit would close the task that awaits it.
"""


class Threads:
    """Runs the blocking code of one model, each call in the context of its request."""

    def __init__(self, name: str, threads: int | None, own: ModelThread | None = None) -> None:
        """`own` is the thread of the model's event loop, if the model has no other thread."""
        self.executor: Executor = (
            ThreadPoolExecutor(threads or THREADS, thread_name_prefix=f"model-{name}")
            if own is None
            else _InModelThread(own)
        )
        self._kept: dict[ContextVar[Any], Any] = {}
        """Context variables that `load` has set, such as the decimal context."""

    def submit(self, function: Callable[..., R], /, *arguments: Any, **named: Any) -> "Future[R]":
        """Call a function in a thread, in a copy of the current context."""
        return self.executor.submit(self._context().run, function, *arguments, **named)

    async def load(self, function: Callable[..., R], /, *arguments: Any) -> R:
        """Call a function outside any request. Later calls see the context variables that it sets."""
        context = self._context()
        before = dict(context.items())
        try:
            return await asyncio.wrap_future(self.executor.submit(context.run, _call, function, *arguments))
        finally:
            self._kept |= {name: value for name, value in context.items() if before.get(name) is not value}

    def close(self) -> None:
        """Stop the threads after their current calls."""
        self.executor.shutdown(wait=False, cancel_futures=True)

    def _context(self) -> Context:
        context = copy_context()
        for name, value in self._kept.items():
            context.run(name.set, value)
        return context

    async def run(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Call a function in a thread, in the current context.

        A disconnect sets `cancelled` in the request context.
        """
        context = request_context()
        context.thread = self.submit(_call, function, *arguments, **named)
        try:
            return await asyncio.wrap_future(context.thread)
        except BaseException:
            context.cancelled = context.cancelled or not context.thread.done()  # still running if cancelled
            raise


def _call(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except ENDS as error:
        name = getattr(function, "__name__", function)
        raise RuntimeError(f"{name} raised {type(error).__name__}") from error


async def run_in_thread(function: Callable[..., R], /, *arguments: Any) -> R:
    """Call a function of model code in a separate thread."""
    return await asyncio.to_thread(_call, function, *arguments)


async def call_apart(function: Callable[[], Any], threads: Threads | None = None) -> Any:
    """Call a function of model code outside any request, sync or async, in a separate thread or task.

    If model code cancels that task or raises SystemExit, the caller's task is not affected.
    """
    if not inspect.iscoroutinefunction(function):
        result = await (run_in_thread(function) if threads is None else threads.load(function))
        if not inspect.isawaitable(result):
            return result
        function = partial(_await, result)
    outcome = await asyncio.ensure_future(_run_to_outcome(function))
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def _run_to_outcome(function: Callable[[], Awaitable[Any]]) -> Outcome:
    try:
        return Outcome(await function(), None)
    except BaseException as error:  # model code may raise anything
        return Outcome(None, error)


class _InModelThread(Executor):
    """Runs blocking code in the thread of a model's event loop, where it delays the model's coroutines."""

    def __init__(self, thread: ModelThread) -> None:
        self._thread = thread

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> "Future[R]":
        future: Future[R] = Future()
        self._thread.loop.call_soon_threadsafe(_run_into, future, partial(fn, *args, **kwargs))
        return future


def _run_into(future: "Future[R]", call: Callable[[], R]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(call())
        except BaseException as error:  # model code may raise anything
            future.set_exception(error)
