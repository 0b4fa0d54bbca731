"""Functions are analysed as methods are: which block their event loop, and which keep objects."""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from inferstream.repository.retention import keeps_nothing
from inferstream.repository.suspension import never_suspends

from inferstream import App, Depends, RequestContext, State
from inferstream.functions.function import Function
from inferstream.functions.model import FunctionModel, model_class

app = App()
kept: list[int] = []


async def compute(x: int) -> int:
    return x


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(**arguments: Any) -> Any:
        return await function(**arguments)

    return wrapper


def slow() -> int:
    time.sleep(0.1)
    return 1


async def quick() -> int:
    return 1


async def asks() -> int:
    await asyncio.sleep(0)
    return 1


async def blocks(x: int) -> int:
    return await compute(x)


async def yields(x: int) -> AsyncIterator[int]:
    yield x


async def reads(xs: AsyncIterator[int]) -> int:
    return sum([x async for x in xs])


async def reads_and_yields(xs: AsyncIterator[int]) -> AsyncIterator[int]:
    async for x in xs:
        yield x


@timed
async def decorated(x: int) -> int:
    return x


async def needs_blocking(x: int, n: int = Depends(slow)) -> int:
    return x + n


async def needs_quick(x: int, n: int = Depends(quick)) -> int:
    return x + n


async def awaits(x: int) -> int:
    await asyncio.sleep(0)
    return x


async def awaits_and_yields(x: int) -> AsyncIterator[int]:
    await asyncio.sleep(0)
    yield x


async def needs_awaiting(x: int, n: int = Depends(asks)) -> int:
    return x + n


async def iterates(x: int, other: Any = None) -> int:
    return sum([item async for item in other])


def plain(x: int) -> int:
    return x


def returns(x: int) -> AsyncIterator[int]:
    return awaits_and_yields(x)


@timed
async def decorated_awaiting(x: int) -> int:
    await asyncio.sleep(0)
    return x


def model(function: Callable[..., Any], mapped: bool) -> type[FunctionModel]:
    own = App()
    if mapped:
        own.error(KeyError, status=404)
    return class_of(own, function)


def class_of(own: App, function: Callable[..., Any]) -> type[FunctionModel]:
    own.model("f")(function)
    described = own["f"]
    assert isinstance(described, Function)
    return model_class(described)


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "with errors"])
@pytest.mark.parametrize(
    "function", [blocks, yields, reads, reads_and_yields, decorated, needs_blocking, needs_quick]
)
def test_these_never_let_the_loop_go_on(function: Callable[..., Any], mapped: bool) -> None:
    assert never_suspends(model(function, mapped))


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "with errors"])
@pytest.mark.parametrize(
    "function",
    [awaits, awaits_and_yields, needs_awaiting, iterates, plain, returns, decorated_awaiting],
    ids=lambda function: function.__name__,
)
def test_these_may(function: Callable[..., Any], mapped: bool) -> None:
    assert not never_suspends(model(function, mapped))


async def remembers(x: int) -> int:
    kept.append(x)
    return x


async def shares(x: int, state: State) -> int:
    return x


async def has_the_app(x: int) -> int:
    return x if app.state else 0


async def knows_its_context(x: int, context: RequestContext) -> int:
    return x if context.cancelled else 0


@pytest.mark.parametrize("function", [remembers, shares, has_the_app, needs_quick])
def test_these_may_keep_objects(function: Callable[..., Any]) -> None:
    assert not keeps_nothing(model(function, False))


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "with errors"])
@pytest.mark.parametrize("function", [blocks, yields, reads, knows_its_context])
def test_these_keep_nothing(function: Callable[..., Any], mapped: bool) -> None:
    assert keeps_nothing(model(function, mapped))


def test_a_hook_of_the_app_may_keep_objects() -> None:
    own = App()
    own.on_load(slow)
    assert not keeps_nothing(class_of(own, blocks))
