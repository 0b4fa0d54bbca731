"""The methods of functions' models: streams of each kind, and named dimensions."""
# ruff: noqa: F821  # names of dimensions are no names of types

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from inferstream import (
    App,
    TensorInput,
    TensorOutput,
    testing,
)
from inferstream.errors import InferenceFailed, InvalidOutput, InvalidRequest
from inferstream.types import InferenceRequest
from tests.unit.functions.serving import answer, chunks, items, one, values_of

INT64 = TensorInput[np.int64, "n"]


def streams_of(app: App) -> None:
    @app.model
    def blocking(n: int) -> Iterator[str]:
        for index in range(n):
            yield f"b{index}"

    @app.model
    async def awaiting(n: int) -> AsyncIterator[str]:
        for index in range(n):
            await asyncio.sleep(0)
            yield f"b{index}"

    @app.model(streaming=True)
    async def spelled(n: int) -> str:
        for index in range(n):
            yield f"b{index}"

    @app.model
    def iterating(n: int) -> Iterator[str]:
        return iter([f"b{index}" for index in range(n)])

    @app.model
    def returning(n: int) -> AsyncIterator[str]:
        return awaiting(n)

    @app.model
    async def opening(n: int) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        return awaiting(n)


STREAMS = ["blocking", "awaiting", "spelled", "iterating", "returning", "opening"]


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "with errors"])
async def test_every_kind_of_stream(mapped: bool) -> None:
    app = App()
    if mapped:
        app.error(KeyError, status=418)
    streams_of(app)
    for name in STREAMS:
        assert await items(app, name, n=3) == ["b0", "b1", "b2"], name
        assert await items(app, name, n=0) == [], name


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "with errors"])
async def test_every_way_to_read_a_stream(mapped: bool) -> None:
    app = App()
    if mapped:
        app.error(KeyError, status=418)

    @app.model
    async def total(xs: AsyncIterator[int], start: int = 0) -> int:
        return start + sum([x async for x in xs])

    @app.model
    def blocking_total(xs: Iterator[int], start: int = 0) -> int:
        return start + sum(xs)

    @app.model
    async def running(xs: AsyncIterator[int], start: int = 0) -> AsyncIterator[int]:
        async for x in xs:
            start += x
            yield start

    @app.model
    def blocking_running(xs: Iterator[int], start: int = 0) -> Iterator[int]:
        for x in xs:
            start += x
            yield start

    first = InferenceRequest(
        inputs=[testing.encode("xs", np.array([1])), testing.encode("start", np.array([100]))]
    )
    alone = InferenceRequest(inputs=[testing.encode("start", np.array([100]))])
    async with testing.run(app) as client:
        for name, expected in [("total", [106]), ("running", [101, 103, 106])]:
            for prefix in ("", "blocking_"):
                model = prefix + name
                found = [
                    values_of(client, model, response)
                    async for response in client.stream(model, first, chunks(2, 3))
                ]
                assert found == expected, model
                found = [
                    values_of(client, model, response)
                    async for response in client.stream(model, alone, chunks(1, 2, 3))
                ]
                assert found == expected, model
        with pytest.raises(InvalidRequest, match='only the argument "xs"'):
            wrong = InferenceRequest(inputs=[testing.encode("start", np.array([1]))])
            [r async for r in client.stream("total", first, one(wrong))]
        assert values_of(client, "total", await client.infer("total", first)) == 101


async def test_equal_dimension_names_are_equal_sizes_in_arguments_and_results() -> None:
    app = App()

    @app.model
    def scaled(x: TensorInput[np.int64, "n"], w: INT64, wrong: bool = False) -> TensorOutput[np.int64, "n"]:
        return (x * w)[: -1 if wrong else None]

    @app.model
    def parts(x: INT64, cut: int = 0) -> tuple[TensorOutput[np.int64, "n"], int]:
        return x[cut:], 1

    @app.model
    async def rolling(xs: AsyncIterator[INT64], cut: int = 0) -> AsyncIterator[TensorOutput[np.int64, "n"]]:
        async for x in xs:
            yield x[cut:]

    two, three = np.arange(2), np.arange(3)
    assert (await answer(app, "scaled", x=three, w=three)).tolist() == [0, 1, 4]
    with pytest.raises(InvalidRequest, match='argument "w": dimension "n" is 2, and 3 in argument "x"'):
        await answer(app, "scaled", x=three, w=two)
    with pytest.raises(InferenceFailed, match='returned 2 for dimension "n", which is 3'):
        await answer(app, "scaled", x=three, w=three, wrong=True)
    with pytest.raises(InvalidOutput, match="dimension"):
        await answer(app, "parts", x=three, cut=1)
    async with testing.run(app) as client:
        first = InferenceRequest(inputs=[testing.encode("xs", three)])
        later = InferenceRequest(inputs=[testing.encode("xs", two)])
        assert len([r async for r in client.stream("rolling", first, one(first))]) == 2
        with pytest.raises(InvalidRequest, match='dimension "n" is 2, and 3'):
            [r async for r in client.stream("rolling", first, one(later))]
        cut = InferenceRequest(inputs=[*first.inputs, testing.encode("cut", np.array([1]))])
        with pytest.raises(InvalidOutput):
            [r async for r in client.stream("rolling", cut)]


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


async def test_decorated_functions_keep_their_kind() -> None:
    app = App()

    @app.model
    @logged
    async def one(a: int) -> int:
        await asyncio.sleep(0)
        return a

    @app.model
    @logged
    def many(n: int) -> Iterator[int]:
        yield from range(n)

    assert await answer(app, "one", a=4) == 4
    assert await items(app, "many", n=2) == [0, 1]
