"""Calls a model's methods: `async def` in the model's event loop, `def` in one thread."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from ...concurrency.model_task import Outcome, outcome_of, run_as_task
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
    """Calls the methods of one model, one at a time, while the event loop turns.

    Methods that are `async def` run in the event loop of `own`, or in this one without it. For others it has a thread
    and no executor, which would take twice as long (60 µs instead of 30). The thread is a daemon: model code that never
    returns must not keep the process alive.
    """

    def __init__(self, name: str, own: ModelThread | None = None, threads: Threads | None = None) -> None:
        """`threads` has the only thread of a model that may have one."""
        self._name = name
        self._own = own
        self._threads = threads
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._turned = False

    async def once(self, method: ModelMethod, argument: Any, context: Context) -> Outcome:
        """Call a method. An `async def` method runs in the context of the current task and ignores `context`."""
        if not method.is_async:
            return (await self._in_thread(method.call, [(argument, context)]))[0]
        if self._own is not None:
            outcome: Outcome = await self._own.call(_await, method.call, argument)
            return outcome
        # Started now, so that its I/O runs while the loop turns.
        self._turned = False
        asyncio.get_running_loop().call_soon(self._turn)
        outcome = await _await(method.call, argument)
        if not self._turned:
            await asyncio.sleep(0)
        return outcome

    async def each(self, method: ModelMethod, arguments: Sequence[tuple[Any, Context]]) -> list[Outcome]:
        """Call a method with each argument in turn, each in its context."""
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
                loop.call_soon_threadsafe(_give, job.done, outcomes)
            except RuntimeError:
                return  # the loop was closed: the step outlived the shutdown grace
            del job, outcomes  # results of a model must not live until its next call

    def _turn(self) -> None:
        self._turned = True

    def close(self) -> None:
        """End the thread when it is free."""
        self._jobs.put(None)


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))


def _call_each(method: Callable[[Any], Any], arguments: Sequence[tuple[Any, Context]]) -> list[Outcome]:
    return [_outcome(method, argument, context) for argument, context in arguments]


def _outcome(method: Callable[[Any], Any], argument: Any, context: Context) -> Outcome:
    # Apart, because the traceback of an error refers to this frame, which must not refer to the outcome.
    try:
        return Outcome(context.run(method, argument), None)
    except BaseException as error:  # model code may raise anything
        return Outcome(None, error)


def _give(done: asyncio.Future[list[Outcome]], outcomes: list[Outcome]) -> None:
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
    return await outcome_of(run_as_task(method(argument)))
