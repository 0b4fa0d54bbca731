"""Methods of models: in a thread or in the loop, one at a time, whatever they raise."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from inferstream.dataplane.execution.method_caller import MethodCaller, ModelMethod, is_async

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


@pytest.fixture
async def caller() -> AsyncIterator[MethodCaller]:
    made = MethodCaller("model m")
    yield made
    made.close()


def context(name: str) -> Any:
    own = copy_context()
    own.run(NAME.set, name)
    return own


async def test_sync_method_runs_in_one_thread_with_its_context(caller: MethodCaller) -> None:
    def where(argument: int) -> tuple[int, str, str]:
        return argument, NAME.get(), threading.current_thread().name

    method = ModelMethod(where)
    outcomes = await caller.call_each(method, [(1, context("a")), (2, context("b"))])
    outcomes.append(await caller.call_once(method, 3, context("c")))
    assert [outcome.value for outcome in outcomes] == [
        (1, "a", "model m"),
        (2, "b", "model m"),
        (3, "c", "model m"),
    ]


async def test_async_method_runs_without_blocking_the_loop(caller: MethodCaller) -> None:
    turned: list[bool] = []

    async def where(argument: int) -> tuple[int, str, bool]:
        return argument, NAME.get(), threading.current_thread() is threading.main_thread()

    asyncio.get_running_loop().call_soon(turned.append, True)
    outcome = await caller.call_once(ModelMethod(where), 1, context("ignored"))
    assert outcome.value == (1, "nobody", True)
    assert turned == [True], "a method that waits for nothing lets others run"
    each = await caller.call_each(ModelMethod(where), [(2, context("b"))])
    assert each[0].value == (2, "b", True)


class Stop(BaseException):
    """What no handler of errors expects."""


@pytest.mark.parametrize("error", [ValueError("broken"), StopIteration(), Stop()])
async def test_method_exceptions_are_returned_as_outcome(caller: MethodCaller, error: BaseException) -> None:
    def fails(argument: bool) -> str:
        if argument:
            raise error
        return "went on"

    async def fails_async(argument: bool) -> str:
        return fails(argument) if not isinstance(error, StopIteration) else "went on"

    outcomes = await caller.call_each(ModelMethod(fails), [(True, context("a")), (False, context("b"))])
    assert (outcomes[0].error, outcomes[1].value) == (error, "went on")
    if not isinstance(error, StopIteration):  # a coroutine cannot raise it
        assert (await caller.call_once(ModelMethod(fails_async), True, context("a"))).error is error


async def test_caller_cancellation_propagates(caller: MethodCaller) -> None:
    begun = asyncio.Event()

    async def hang(argument: None) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(caller.call_once(ModelMethod(hang), None, copy_context()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_decorated_method_behaves_like_wrapped_one() -> None:
    async def method(argument: int) -> int:
        return argument

    @functools.wraps(method)
    def decorated(*arguments: Any) -> Any:
        return method(*arguments)

    assert is_async(method)
    assert is_async(decorated)
    assert not is_async(lambda argument: argument)
