"""Calls a model's methods however their author wrote them: `async def` on the loop, `def` in one thread."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What a method of a model returned, or raised."""

    value: Any
    error: BaseException | None


class Caller:
    """Calls the methods of one model, never two at a time, and always lets the loop turn meanwhile."""

    def __init__(self, thread: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=thread)
        self._turned = False

    async def once(self, method: Callable[[Any], Any], argument: Any, context: Context) -> Outcome:
        """Call a method; an `async def` one runs in the current task, whatever `context` says."""
        loop = asyncio.get_running_loop()
        if not is_async(method):
            return await loop.run_in_executor(self._executor, _call, method, argument, context)
        # Started here and now, so that what it waits for is under way while the loop turns.
        self._turned = False
        loop.call_soon(self._turn)
        outcome = await _await(method, argument)
        if not self._turned:
            await asyncio.sleep(0)
        return outcome

    async def each(
        self, method: Callable[[Any], Any], arguments: Sequence[tuple[Any, Context]]
    ) -> list[Outcome]:
        """Call a method with one argument after another, each in its context."""
        loop = asyncio.get_running_loop()
        if not is_async(method):
            return await loop.run_in_executor(self._executor, _call_each, method, arguments)
        return [
            await loop.create_task(_await(method, argument), context=context)
            for argument, context in arguments
        ]

    def _turn(self) -> None:
        self._turned = True

    def shutdown(self) -> None:
        """Let go of the thread, at once if it is free."""
        self._executor.shutdown(wait=False)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling this makes a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))


def _call(method: Callable[[Any], Any], argument: Any, context: Context) -> Outcome:
    try:
        return Outcome(context.run(method, argument), None)
    except BaseException as error:  # an outcome and not raised, because a future cannot hold every exception
        return Outcome(None, error)


def _call_each(method: Callable[[Any], Any], arguments: Sequence[tuple[Any, Context]]) -> list[Outcome]:
    return [_call(method, argument, context) for argument, context in arguments]


async def _await(method: Callable[[Any], Any], argument: Any) -> Outcome:
    try:
        return Outcome(await method(argument), None)
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return Outcome(None, error)
