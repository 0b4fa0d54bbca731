"""Functions as models, called in process: arguments, results, streams, dependencies and batches."""
# ruff: noqa: B008, F821  # names of dimensions are no names of types

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, NamedTuple, Union

import numpy as np
import orjson
import pytest
from pydantic import BaseModel, Field, PrivateAttr

from inferstream import (
    App,
    Depends,
    Finished,
    Headers,
    InferenceResponse,
    ModelError,
    RequestContext,
    State,
    TensorInput,
    TensorOutput,
    Token,
    testing,
)
from inferstream.codecs.values.declared import value_of_tensor
from inferstream.codecs.values.images import Image
from inferstream.codecs.values.lists import ListOf
from inferstream.codecs.values.objects import Json
from inferstream.dataplane.caller import Caller
from inferstream.errors import InferenceFailed, InvalidOutput, InvalidRequest
from inferstream.types import InferenceRequest, TensorData
from inferstream.types.conversion import join_bytes

INT64 = TensorInput[np.int64, "n"]


async def answer(app: App, model: str, **arguments: Any) -> Any:
    """The values of one response, or the only one."""
    async with testing.run(app) as client:
        response = await client.infer(model, request_of(client, model, **arguments))
        return values_of(client, model, response)


async def items(app: App, model: str, **arguments: Any) -> list[Any]:
    async with testing.run(app) as client:
        request = request_of(client, model, **arguments)
        return [values_of(client, model, response) async for response in client.stream(model, request)]


def request_of(client: testing.InProcess, model: str, **arguments: Any) -> InferenceRequest:
    declared = {
        t.name: t
        for t in client.application.dataplane.admit(model, None, Caller(Headers(()), "")).signature.inputs
        or ()
    }
    inputs = [value_of_tensor(declared[name]).encode_input(name, value) for name, value in arguments.items()]
    return InferenceRequest(inputs=inputs)


def values_of(client: testing.InProcess, model: str, response: InferenceResponse) -> Any:
    declared = {
        t.name: t
        for t in client.application.dataplane.admit(model, None, Caller(Headers(()), "")).signature.outputs
        or ()
    }
    found = {o.name: value_of_tensor(declared[o.name]).decode_output(o) for o in response.outputs}
    return found["output"] if list(found) == ["output"] else found


class Both(NamedTuple):
    label: str
    score: float | None


async def test_each_way_to_return_a_value() -> None:
    app = App()

    @app.model
    def pair(a: int) -> tuple[int, str]:
        return a, str(a)

    @app.model
    async def both(score: float | None = None) -> Both:
        return Both("x", score)

    @app.model
    def nothing() -> None:
        return None

    @app.model
    def maybe(a: int) -> int | None:
        return a or None

    @app.model
    def free(a: int) -> InferenceResponse:
        return InferenceResponse(model_name="free", outputs=[]) if a else None  # type: ignore[return-value]

    assert await answer(app, "free", a=1) == {}
    with pytest.raises(InferenceFailed, match="it is no InferenceResponse"):
        await answer(app, "free", a=0)
    assert await answer(app, "pair", a=3) == {"output_0": 3, "output_1": "3"}
    assert await answer(app, "both", score=0.5) == {"label": "x", "score": 0.5}
    assert await answer(app, "both") == {"label": "x"}
    assert await answer(app, "nothing") == {}
    assert await answer(app, "maybe", a=2) == 2
    assert await answer(app, "maybe", a=0) == {}


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
async def test_each_kind_of_stream(mapped: bool) -> None:
    app = App()
    if mapped:
        app.error(KeyError, status=418)
    streams_of(app)
    for name in STREAMS:
        assert await items(app, name, n=3) == ["b0", "b1", "b2"], name
        assert await items(app, name, n=0) == [], name


async def test_a_stream_of_tokens_and_texts() -> None:
    app = App()

    @app.model
    async def generate(n: int) -> AsyncIterator[Token | str]:
        yield Token("a", 7)
        yield "b"

    @app.model
    def maybe(n: int) -> Union[str, Token, None]:  # noqa: UP007  # as written before Python 3.10
        return [Token("c", 7), "d", None][n]

    assert await items(app, "generate", n=1) == ["a", "b"]
    assert [await answer(app, "maybe", n=n) for n in (0, 1, 2)] == ["c", "d", {}]


async def chunks(*values: int) -> AsyncIterator[InferenceRequest]:
    for value in values:
        await asyncio.sleep(0)
        yield InferenceRequest(inputs=[testing.encode("xs", np.array([value]))])


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "with errors"])
async def test_each_way_to_read_a_stream(mapped: bool) -> None:
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


async def one(request: InferenceRequest) -> AsyncIterator[InferenceRequest]:
    yield request


async def test_arguments_are_strict_and_the_function_does_not_run() -> None:
    app, ran = App(), []

    @app.model
    def add(a: int, b: Annotated[int, Field(gt=0)] = 1) -> int:
        ran.append(a)
        return a + b

    for arguments, message in [
        ({}, 'argument "a" is missing; it takes a, b \\(optional\\)'),
        ({"a": 1, "c": 2}, '"c" is no argument of the model; it takes a, b'),
        ({"a": "x"}, 'argument "a" takes INT64, got BYTES'),
        ({"a": [1, 2]}, 'argument "a" takes one value, got 2'),
        ({"a": 1, "b": -1}, 'argument "b": .* greater than 0'),
    ]:
        async with testing.run(app) as client:
            with pytest.raises(InvalidRequest, match=message):
                await client.infer("add", **arguments)
    assert ran == []


async def test_optional_arguments_and_null() -> None:
    app = App()

    @app.model
    def shown(
        a: int | None,
        b: float | None = None,
        c: str = "c",
        d: np.ndarray[Any, np.dtype[np.float32]] | None = None,
    ) -> str:
        return repr((a, b, c, d is None))

    assert await answer(app, "shown") == "(None, None, 'c', True)"
    assert await answer(app, "shown", a=1, b=2.0, c="x") == "(1, 2.0, 'x', True)"
    null = InferenceRequest.model_validate(
        {"inputs": [{"name": "b", "shape": [1], "datatype": "FP64", "data": [None]}]}
    )
    async with testing.run(app) as client:
        assert values_of(client, "shown", await client.infer("shown", null)).startswith("(None, None")
        metadata = client.application.dataplane.admit("shown", None, Caller(Headers(()), "")).signature
        assert [t.parameters.get("default") for t in metadata.inputs] == ["null", "null", '"c"', "null"]


async def test_equal_names_are_equal_sizes_in_a_call_and_its_results() -> None:
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
async def test_dependencies_run_once_for_a_call_and_blocking_ones_in_a_thread(mapped: bool) -> None:
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


async def test_an_error_of_a_dependency_is_that_of_the_call() -> None:
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


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


async def test_functions_under_decorators_are_what_they_are_below() -> None:
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


async def test_the_items_of_a_batch_fail_alone(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_values_beyond_a_shape_do_not_reach_the_next_caller_of_a_batch() -> None:
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


class Noted(BaseModel):
    """Knows the thread in which it was validated."""

    text: str
    _thread: str = PrivateAttr(default_factory=lambda: threading.current_thread().name)


@pytest.mark.parametrize("count", [1, 20_000])
async def test_large_arguments_of_coroutines_are_read_beside_the_event_loop(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Json, "reads_apart", True)  # as of images, whose library is not always installed
    app = App()

    @app.model
    async def whole(notes: list[Noted], context: RequestContext) -> str:
        await asyncio.sleep(0)
        return notes[0]._thread

    @app.model
    async def items(notes: list[Noted]) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        yield notes[0]._thread

    @app.model
    async def with_a_dependency(notes: list[Noted], one: int = Depends(lambda: 1)) -> str:
        await asyncio.sleep(0)
        return notes[0]._thread

    text = orjson.dumps([{"text": "a"}] * count).decode()
    fields = {"name": "notes", "datatype": "BYTES", "shape": [1], "data": [text]}
    async with testing.run(app) as client:
        for name in ("whole", "items", "with_a_dependency"):
            request = InferenceRequest.model_validate({"inputs": [fields]})
            (thread,) = (await client.infer(name, request)).outputs[0].data
            assert (thread == threading.current_thread().name) is (count == 1), name
        raw = InferenceRequest.model_validate({"inputs": [fields]})
        raw.inputs[0].data = TensorData.from_raw(join_bytes([text]), "BYTES")
        (thread,) = (await client.infer("whole", raw)).outputs[0].data
        assert (thread == threading.current_thread().name) is (count == 1)
        wrong = {**fields, "data": [text.replace('"a"', "1", 1)]}
        for name in ("whole", "items"):
            with pytest.raises(InvalidRequest, match=r'argument "notes": field "0.text"'):
                await client.infer(name, InferenceRequest.model_validate({"inputs": [wrong]}))


def test_images_are_read_beside_the_event_loop() -> None:
    assert Image().reads_apart
    assert ListOf(Image()).reads_apart


async def test_a_list_of_a_batch_holds_one_value_for_each_item() -> None:
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


async def test_batches_of_other_sizes_and_batches_that_fail() -> None:
    app = App()

    @app.model(batch=8)
    async def short(xs: list[int]) -> list[int]:
        return xs[1:]

    @app.model(batch=8)
    async def endless(xs: list[int]) -> list[int]:
        return iter(xs)  # type: ignore[return-value]

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
    with pytest.raises(InferenceFailed, match="a list_iterator, not a list"):
        await answer(app, "endless", xs=[1])
    with pytest.raises(InferenceFailed):
        await answer(app, "broken", xs=[1])
    assert await answer(app, "labelled", xs=[2, 3]) == {"output_0": ["a", "a"], "output_1": [0.5, 0.5]}
    with pytest.raises(ModelError, match="bad"):
        await answer(app, "labelled", xs=[1])
    rows = await answer(app, "arrays", xs=np.ones((3, 2), np.float32))
    assert rows.tolist() == [2, 2, 2]


@pytest.mark.parametrize("hint", [int, str, bytes, bool])
async def test_a_value_of_another_type_is_an_error_of_the_model(hint: Any) -> None:
    app = App()

    def wrong() -> Any:
        return object()

    wrong.__annotations__["return"] = hint
    app.model(wrong)
    with pytest.raises(
        InferenceFailed, match=f"returned a value of type object where its annotation says {hint.__name__}"
    ):
        await answer(app, "wrong")


async def test_an_integer_that_is_too_large_is_an_error_that_says_so() -> None:
    app = App()

    @app.model
    def large() -> int:
        return 2**63

    with pytest.raises(
        InferenceFailed, match=r"a value of type int that does not fit: .* is out of range for INT64"
    ):
        await answer(app, "large")


@pytest.mark.parametrize("is_async", [False, True])
async def test_steps_map_exceptions_and_read_their_arguments(is_async: bool) -> None:
    app, released = App(), []
    app.error(KeyError, status=418, message="teapot")

    def advance(states: list[dict[str, int]]) -> list[int | Finished | Exception]:
        found: list[int | Finished | Exception] = []
        for state in states:
            state["left"] -= 1
            ended = KeyError("x") if state["left"] == -9 else Finished()
            found.append(state["left"] if state["left"] >= 0 else ended)
        return found

    def state(n: int) -> dict[str, int]:
        if n == 99:
            raise KeyError("y")
        return {"left": n}

    if is_async:

        async def steps(states: list[dict[str, int]]) -> list[int | Finished | Exception]:
            return advance(states)

        async def admit(n: int) -> dict[str, int]:
            return state(n)

        app.steps(steps).admit(admit)
    else:
        app.steps("steps")(advance).admit(state)
    app["steps"].release(released.append)
    assert await items(app, "steps", n=2) == [1, 0]
    for n in (99, -8):
        with pytest.raises(ModelError, match="teapot"):
            await items(app, "steps", n=n)
    assert released == [{"left": -1}, {"left": -9}]
