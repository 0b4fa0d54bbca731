"""Calls a model's methods: `async def` on its event loop, and `def` in a thread."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from ...concurrency.model_task import Outcome, run_as_task, run_to_outcome
from ...concurrency.model_thread import ModelThread
from ...concurrency.threads import Threads


class ModelMethod:
    __slots__ = ("call", "is_async")

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call
        self.is_async = is_async(call)


class Job(NamedTuple):
    run: Callable[[], list[Outcome]]
    done: asyncio.Future[list[Outcome]]


class MethodCaller:
    """Calls the methods of one model, one at a time, without blocking the event loop.

    `async def` methods run on the event loop of `own`, or on the current one if it is None. Other methods run
    in a thread without an executor, which takes 30 µs per call instead of 60 µs. It is a daemon thread, so
    model code that never returns does not keep the process alive.
    """

    def __init__(self, name: str, own: ModelThread | None = None, threads: Threads | None = None) -> None:
        """`threads` provides the thread for models with `threads=1`, which must not use another."""
        self._name = name
        self._own = own
        self._threads = threads
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._turned = False

    async def call_once(self, method: ModelMethod, argument: Any, context: Context) -> Outcome:
        """Call a method with one argument.

        `async def` methods run in the context of the current task, and ignore `context`.
        """
        if not method.is_async:
            return (await self._in_thread(method.call, [(argument, context)]))[0]
        if self._own is not None:
            outcome: Outcome = await self._own.call(_await, method.call, argument)
            return outcome
        # Started now, so that its I/O proceeds while the event loop runs other tasks.
        self._turned = False
        asyncio.get_running_loop().call_soon(self._turn)
        outcome = await _await(method.call, argument)
        if not self._turned:
            await asyncio.sleep(0)
        return outcome

    async def call_each(self, method: ModelMethod, arguments: Sequence[tuple[Any, Context]]) -> list[Outcome]:
        """Call a method once per argument, sequentially, each in its context."""
        if not method.is_async:
            return await self._in_thread(method.call, arguments)
        if self._own is not None:
            outcomes: list[Outcome] = await self._own.call(_await_each, method.call, arguments)
            return outcomes
        return await _await_each(method.call, arguments)

    async def _in_thread(
        self, method: Callable[[Any], Any], arguments: Sequence[tuple[Any, Context]]
    ) -> list[Outcome]:
        if self._threads is not None:
            return await asyncio.wrap_future(self._threads.executor.submit(_call_each, method, arguments))
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
            self._thread.start()
        done: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._jobs.put(Job(partial(_call_each, method, arguments), done))
        return await done

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None:
            outcomes = job.run()
            try:
                loop.call_soon_threadsafe(_set_result, job.done, outcomes)
            except RuntimeError:
                return  # The loop was closed: the step exceeded the shutdown grace period.
            del job, outcomes  # The model's results must not live until the next call.

    def _turn(self) -> None:
        self._turned = True

    def close(self) -> None:
        """Stop the thread once it is idle."""
        self._jobs.put(None)


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))


def _call_each(method: Callable[[Any], Any], arguments: Sequence[tuple[Any, Context]]) -> list[Outcome]:
    return [_call_to_outcome(method, argument, context) for argument, context in arguments]


def _call_to_outcome(method: Callable[[Any], Any], argument: Any, context: Context) -> Outcome:
    # A separate function: the traceback of an error refers to its frame, which must not refer to the outcome.
    try:
        return Outcome(context.run(method, argument), None)
    except BaseException as error:  # Model code may raise anything.
        return Outcome(None, error)


def _set_result(done: asyncio.Future[list[Outcome]], outcomes: list[Outcome]) -> None:
    if not done.done():
        done.set_result(outcomes)


async def _await_each(
    method: Callable[[Any], Any], arguments: Sequence[tuple[Any, Context]]
) -> list[Outcome]:
    loop = asyncio.get_running_loop()
    return [
        await loop.create_task(_await(method, argument), context=context) for argument, context in arguments
    ]


async def _await(method: Callable[[Any], Any], argument: Any) -> Outcome:
    return await run_to_outcome(run_as_task(method(argument)))
