"""Functions of batches, whose items fail alone."""
# names of dimensions are no names of types

import asyncio
import copy
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inferstream import (
    App,
    ModelError,
    TensorInput,
    TensorOutput,
    testing,
)
from inferstream.errors import InferenceFailed, InvalidRequest
from inferstream.types import InferenceRequest
from tests.unit.functions.serving import answer, request_of, values_of


async def test_batch_items_fail_independently(caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    sizes: list[int] = []
    app.error(KeyError, status=404, message="not here")

    @app.model(batch=64, within_ms=50)
    def halves(xs: list[int]) -> list[float]:
        sizes.append(len(xs))
        return [
            KeyError("hidden")
            if x < 0
            else ModelError("odd", 422)
            if x % 2
            else ValueError("secret")
            if x == 8
            else x / 2
            for x in xs
        ]

    async with testing.run(app) as client:

        async def ask(*xs: int) -> Any:
            try:
                return values_of(client, "halves", await client.infer("halves", xs=list(xs)))
            except ModelError as error:
                return error.status_code, error.message

        asked = [ask(2), ask(4), ask(3), ask(-1), ask(8), ask(6, 10), ask(6, 3)]
        found = await asyncio.gather(*asked)
    assert found[:4] == [[1.0], [2.0], (422, "odd"), (404, "not here")]
    assert found[4] == (500, "Model halves failed on this item: ValueError.")
    assert "secret" not in str(found)
    failures = [record for record in caplog.records if record.exc_info]
    assert [str(record.exc_info[1]) for record in failures if record.exc_info] == ["secret"]
    assert failures[0].getMessage().startswith("model halves failed on item ")
    assert found[5:] == [[3.0, 5.0], (422, "odd")]
    assert len(sizes) < len(asked)


async def test_surplus_values_do_not_reach_the_next_batch_item() -> None:
    app = App()
    begun = threading.Semaphore(0)
    go_on = threading.Event()

    @app.model(batch=8, within_ms=1)
    def shout(texts: list[str]) -> list[str]:
        begun.release()
        go_on.wait(10)
        return [text.upper() for text in texts]

    def request(shape: list[int], *texts: str) -> InferenceRequest:
        fields = {"name": "texts", "shape": shape, "datatype": "BYTES", "data": [*texts]}
        return InferenceRequest.model_validate({"inputs": [fields]})

    async with testing.run(app) as client:
        first = asyncio.create_task(client.infer("shout", request([1], "first")))
        await asyncio.to_thread(begun.acquire)  # so that the others wait for a batch
        wrong = asyncio.create_task(client.infer("shout", request([1], "a", "b")))
        right = asyncio.create_task(client.infer("shout", request([2], "c", "d")))
        short = asyncio.create_task(client.infer("shout", request([2], "e")))
        await asyncio.sleep(0)
        go_on.set()
        assert values_of(client, "shout", await first) == ["FIRST"]
        assert values_of(client, "shout", await right) == ["C", "D"]
        with pytest.raises(InvalidRequest, match=r'argument "texts": shape \[1\] needs 1 values, got 2'):
            await wrong
        with pytest.raises(InvalidRequest, match=r'argument "texts": shape \[2\] needs 2 values, got 1'):
            await short


async def test_list_parameter_holds_one_value_per_item() -> None:
    app = App()

    @app.model(batch=8)
    def doubled(xs: list[int]) -> list[int]:
        return [2 * x for x in xs]

    def request(shape: list[int], *xs: int) -> InferenceRequest:
        fields = {"name": "xs", "datatype": "INT64", "shape": shape, "data": [*xs]}
        return InferenceRequest.model_validate({"inputs": [fields]})

    async with testing.run(app) as client:
        with pytest.raises(InvalidRequest, match=r'argument "xs" takes shape \[items\], got \[2, 3\]'):
            await client.infer("doubled", request([2, 3], 1, 2, 3, 4, 5, 6))
        response = await client.infer("doubled", request([2, 1], 1, 2))
        assert response.outputs[0].data == [2, 4]


async def test_wrong_batch_sizes_and_failing_batches() -> None:
    app = App()

    @app.model(batch=8)
    async def short(xs: list[int]) -> list[int]:
        return xs[1:]

    @app.model(batch=8)
    async def single(xs: list[int]) -> list[int]:
        return xs[0]  # type: ignore[return-value]

    @app.model(batch=8)
    def broken(xs: list[int]) -> list[int]:
        raise ZeroDivisionError

    @app.model(batch=8)
    def labelled(xs: list[int]) -> tuple[list[str], list[float]]:
        return ["a"] * len(xs), [ModelError("bad") if x == 1 else 0.5 for x in xs]  # type: ignore[list-item]

    @app.model(batch=8)
    def arrays(xs: TensorInput[np.float32, "rows", 2]) -> TensorOutput[np.float32, "rows"]:
        return xs.sum(axis=1)

    @app.model(batch=8, within_ms=50)
    def embed(texts: list[str]) -> list[list[float]]:
        return [[0.5] * len(text) if text else ModelError("empty") for text in texts]  # type: ignore[misc]

    @app.model(batch=8, within_ms=50)
    def turned(points: list[dict[str, int]]) -> list[dict[str, int]]:
        return [{"x": -point["x"]} for point in points]

    assert await answer(app, "embed", texts=["a", "bc"]) == [[0.5], [0.5, 0.5]]
    async with testing.run(app) as client:
        texts = ("abc", "", "d")
        asked = [client.infer("embed", request_of(client, "embed", texts=[text])) for text in texts]
        first, second, third = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(second, ModelError)
        assert values_of(client, "embed", first) == [[0.5] * 3]
        assert values_of(client, "embed", third) == [[0.5]]
    assert await answer(app, "turned", points=[{"x": 1}, {"x": 2}]) == [{"x": -1}, {"x": -2}]
    with pytest.raises(InvalidRequest, match='argument "points": element 1 field "x"'):
        await answer(app, "turned", points=[{"x": 1}, {"x": "a"}])
    with pytest.raises(InferenceFailed, match="returned 0 items for a batch of 1"):
        await answer(app, "short", xs=[1])
    with pytest.raises(InferenceFailed, match="a int, not a list"):
        await answer(app, "single", xs=[1])
    with pytest.raises(InferenceFailed):
        await answer(app, "broken", xs=[1])
    assert await answer(app, "labelled", xs=[2, 3]) == {"output_0": ["a", "a"], "output_1": [0.5, 0.5]}
    with pytest.raises(ModelError, match="bad"):
        await answer(app, "labelled", xs=[1])
    rows = await answer(app, "arrays", xs=np.ones((3, 2), np.float32))
    assert rows.tolist() == [2, 2, 2]


RESULTS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "iterator": iter,
    "map": lambda items: map(copy.copy, items),
    "generator": lambda items: (item for item in items),
    "values": lambda items: dict(enumerate(items)).values(),
}


@pytest.mark.parametrize("kind", RESULTS)
async def test_batch_may_return_any_sequence(kind: str) -> None:
    app = App()

    @app.model(batch=8)
    def halves(xs: list[int]) -> list[float]:
        return RESULTS[kind]([ModelError("odd") if x % 2 else x / 2 for x in xs])  # type: ignore[no-any-return]

    @app.model(batch=8)
    async def labelled(xs: list[int]) -> tuple[list[str], list[float]]:
        return RESULTS[kind](["a" for _ in xs]), RESULTS[kind]([x / 2 for x in xs])

    @app.model(batch=8)
    def endless(xs: list[int]) -> list[int]:
        return itertools.count()  # type: ignore[return-value]

    assert await answer(app, "halves", xs=[2, 4]) == [1, 2]
    with pytest.raises(ModelError, match="odd"):
        await answer(app, "halves", xs=[1])
    assert await answer(app, "labelled", xs=[2, 4]) == {"output_0": ["a", "a"], "output_1": [1, 2]}
    with pytest.raises(InferenceFailed, match="returned 3 items for a batch of 2"):
        await answer(app, "endless", xs=[1, 2])


async def test_batch_limit_counts_items() -> None:
    app = App()
    sizes: list[int] = []
    entered, leave = threading.Event(), threading.Event()

    @app.model(batch=8, within_ms=3_600_000, max_concurrency=1)
    def same(xs: list[int]) -> list[int]:
        sizes.append(len(xs))
        entered.set()
        leave.wait(10)
        return xs

    async with testing.run(app) as client:
        first = asyncio.create_task(client.infer("same", xs=[0]))
        await asyncio.to_thread(entered.wait, 10)
        others = [asyncio.create_task(client.infer("same", xs=[*range(count)])) for count in (6, 6, 9, 2, 6)]
        await asyncio.sleep(0)
        leave.set()
        for count, answered in zip((1, 6, 6, 9, 2, 6), [first, *others], strict=True):
            assert values_of(client, "same", await answered) == [*range(count)]
    assert sizes[0] == 1
    assert sorted(sizes) == [1, 6, 6, 8, 9]
