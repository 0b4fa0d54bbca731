"""Arguments that no client gives."""
# ruff: noqa: B008  # names of dimensions are no names of types

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

import pytest

from inferstream import (
    App,
    Depends,
    Headers,
    ModelError,
    RequestContext,
    State,
    testing,
)
from tests.unit.functions.serving import answer, items


class Shop:
    """A dependency that is a class."""

    def __init__(self, headers: Headers, state: State) -> None:
        self.name = f"{headers.get('shop', 'none')}-{state.sign}"


async def user(context: RequestContext) -> str:
    await asyncio.sleep(0)
    return context.headers.get("user", "nobody")


def greeting(user: Annotated[str, Depends(user)], shop: Shop = Depends()) -> str:
    return f"{user}@{shop.name}"


def dependent(app: App, calls: list[str]) -> None:
    app.state.sign = "s"

    def counted() -> str:
        calls.append(threading.current_thread().name)
        return "c"

    async def slow(a: str = Depends(counted)) -> str:
        await asyncio.sleep(0)
        return a + "s"

    def fast(a: str = Depends(counted), *more: int, factor: int = 1) -> str:
        return a + "f" * factor

    @app.model
    async def awaiting(
        n: int, a: str = Depends(slow), b: str = Depends(fast), shop: Shop = Depends(Shop)
    ) -> str:
        return f"{n}{a}{b}{shop.name}"

    @app.model
    def blocking(n: int, a: str = Depends(slow), b: str = Depends(fast), shop: Shop = Depends(Shop)) -> str:
        return f"{n}{a}{b}{shop.name}"

    @app.model
    async def mixed(b: str = Depends(fast)) -> str:
        await asyncio.sleep(0)
        return b

    app.model(greeting)

    @app.model
    def plain(n: int, b: str = Depends(fast), shop: Shop = Depends(Shop)) -> str:
        return f"{n}{b}{shop.name}"

    @app.model
    async def yielding(n: int, a: str = Depends(slow)) -> AsyncIterator[str]:
        for _ in range(n):
            yield a

    @app.model
    def blocking_yielding(n: int, a: str = Depends(slow)) -> Iterator[str]:
        for _ in range(n):
            yield a


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "with errors"])
async def test_dependencies_run_once_per_call_and_blocking_ones_in_a_thread(mapped: bool) -> None:
    calls: list[str] = []
    app = App()
    if mapped:
        app.error(KeyError, status=418)
    dependent(app, calls)
    assert await answer(app, "awaiting", n=1) == "1cscfnone-s"
    assert await answer(app, "blocking", n=1) == "1cscfnone-s"
    assert await answer(app, "plain", n=1) == "1cfnone-s"
    assert await answer(app, "mixed") == "cf"
    assert await answer(app, "greeting") == "nobody@none-s"
    assert await items(app, "yielding", n=2) == ["cs", "cs"]
    assert await items(app, "blocking_yielding", n=2) == ["cs", "cs"]
    assert len(calls) == 6
    assert threading.main_thread().name not in calls


async def test_dependency_error_fails_the_call() -> None:
    app = App()
    app.error(KeyError, status=418, message="teapot")

    async def fails() -> str:
        raise KeyError("x")

    def fails_too() -> str:
        raise ModelError("no", 403)

    @app.model
    async def one(a: str = Depends(fails)) -> str:
        return a

    @app.model
    def many(a: str = Depends(fails)) -> Iterator[str]:
        yield a

    @app.model
    async def more(a: str = Depends(fails_too)) -> AsyncIterator[str]:
        yield a

    async with testing.run(app) as client:
        for model in ("one", "many"):
            with pytest.raises(ModelError, match="teapot") as caught:
                [response async for response in client.stream(model)]
            assert caught.value.status_code == 418
        with pytest.raises(ModelError, match="no"):
            [response async for response in client.stream("more")]
