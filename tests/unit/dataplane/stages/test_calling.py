"""Calls of models by other models: values, streams, errors, and how they end with the call around them."""

import asyncio
import gc
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from inferstream import App, MLModel, request_context
from inferstream.dataplane.stages import live
from inferstream.errors import DeadlineExceeded, InferenceFailed, InferstreamError, ModelLoadFailed
from inferstream.settings import ModelSettings
from inferstream.testing import InProcess, run
from inferstream.types import InferenceRequest, InferenceResponse


class Point(BaseModel):
    x: int
    y: int


def values(response: InferenceResponse) -> list[Any]:
    return response.outputs[0].data.flat()


class Pipeline:
    """An app of models that call each other, and what happens in them."""

    def __init__(self) -> None:
        self.app = app = App()
        self.closed: list[str] = []
        self.made = 0
        self.batches: list[int] = []
        self.began = asyncio.Event()

        @app.model
        async def tokens(text: str) -> AsyncIterator[str]:
            try:
                for word in text.split():
                    self.made += 1
                    yield word
            finally:
                self.closed.append("tokens")

        @app.model
        async def endless(text: str) -> AsyncIterator[str]:
            try:
                while True:
                    self.made += 1
                    yield text
                    await asyncio.sleep(0)
            finally:
                self.closed.append("endless")

        @app.model
        async def hangs() -> str:
            try:
                self.began.set()
                await asyncio.Event().wait()
            finally:
                self.closed.append("hangs")
            return ""

        @app.model
        def length(word: str) -> int:
            return len(word)

        @app.model(batch=4, within_ms=20_000)
        def lengths(words: list[str]) -> list[int]:
            self.batches.append(len(words))
            return [len(word) for word in words]

        @app.model
        def mirrored(point: Point, scale: int = 1) -> Point:
            return Point(x=point.y * scale, y=point.x * scale)

        @app.model
        def minmax(numbers: list[int]) -> tuple[int, int]:
            return min(numbers), max(numbers)

    def caller(self, function: Any, *calls: str, **settings: Any) -> None:
        self.app.model(calls=list(calls), **settings)(function)


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline()


async def infer(pipeline: Pipeline, model: str, **inputs: Any) -> Any:
    async with run(pipeline.app) as client:
        return values(await client.infer(model, **inputs))


async def test_values_keep_their_types(pipeline: Pipeline) -> None:
    async def outer() -> str:
        models = pipeline.app.models
        point = await models.mirrored(Point(x=1, y=2), scale=3)
        low, high = await models["minmax"](numbers=[3, 1, 2])
        return f"{point!r} {low} {high}"

    pipeline.caller(outer, "mirrored", "minmax")
    assert await infer(pipeline, "outer") == ["Point(x=6, y=3) 1 3"]


async def test_stream_forwards_a_stream(pipeline: Pipeline) -> None:
    async def shout(text: str) -> AsyncIterator[str]:
        async for token in pipeline.app.models.tokens(text):
            yield token.upper()

    async def twice(text: str) -> AsyncIterator[str]:
        async for token in pipeline.app.models.shout(text):
            yield token + token

    pipeline.caller(shout, "tokens")
    pipeline.caller(twice, "shout")
    async with run(pipeline.app) as client:
        assert [values(item) async for item in client.stream("twice", text="a b")] == [["AA"], ["BB"]]


async def test_concurrent_calls_form_a_batch(pipeline: Pipeline) -> None:
    async def total(text: str) -> int:
        calls = (pipeline.app.models.lengths([word]) for word in text.split())
        return sum(length for (length,) in await asyncio.gather(*calls))

    pipeline.caller(total, "lengths")
    assert await infer(pipeline, "total", text="a bb ccc dddd") == [10]
    assert sum(pipeline.batches) == 4
    assert len(pipeline.batches) < 4


async def test_code_in_thread_calls_and_iterates(pipeline: Pipeline) -> None:
    def outer(text: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        words = [word + "!" for word in pipeline.app.models.tokens(text)]
        return f"{words} {pipeline.app.models.length(text).result()}"

    pipeline.caller(outer, "tokens", "length")
    assert await infer(pipeline, "outer", text="a b") == ["['a!', 'b!'] 3"]


async def test_function_with_its_own_loop_calls_and_iterates(pipeline: Pipeline) -> None:
    async def outer(text: str) -> str:
        words = [word async for word in pipeline.app.models.tokens(text)]
        return f"{words} {await pipeline.app.models.length(text)}"

    pipeline.caller(outer, "tokens", "length", loop="own")
    assert await infer(pipeline, "outer", text="a b") == ["['a', 'b'] 3"]


def seen_as_ada(pipeline: Pipeline) -> list[tuple[str, str, str]]:
    """Model, principal and dialect of each call, where Ada calls the model `outer`."""
    seen: list[tuple[str, str, str]] = []

    @pipeline.app.middleware
    async def look(call: Any, call_next: Any) -> Any:
        if call.model == "outer":
            call.principal = "ada"
        seen.append((call.model, call.principal, call.face))
        return await call_next(call)

    return seen


class Inner(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            {"name": name, "datatype": "INT64", "shape": [2], "data": payload.inputs[0].data.flat()}
            for name in ("a", "b")
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)


async def test_class_models_call_each_other_through_request_context() -> None:
    class Reads(MLModel):
        async def predict(self, payload: InferenceRequest) -> InferenceResponse:
            both = await request_context().models.inner(number=[1, 2])
            output = {
                "name": "sum",
                "datatype": "INT64",
                "shape": [1],
                "data": [int(sum(both["a"]) + sum(both["b"]))],
            }
            return InferenceResponse(model_name=self.name, outputs=[output])

    served = [
        Reads(ModelSettings(name="outer", implementation=Reads, calls=["inner"])),
        Inner(ModelSettings(name="inner", implementation=Inner)),
    ]
    async with run(served) as client:
        assert values(await client.infer("outer", x=1)) == [6]


async def leave_after_one(client: InProcess, model: str, **inputs: Any) -> None:
    async with aclosing(client.stream(model, **inputs)) as stream:
        async for _ in stream:
            break


async def test_client_disconnect_closes_all_nested_streams(pipeline: Pipeline) -> None:
    async def middle(text: str) -> AsyncIterator[str]:
        try:
            async for token in pipeline.app.models.endless(text):
                yield token
        finally:
            pipeline.closed.append("middle")

    async def outer(text: str) -> AsyncIterator[str]:
        try:
            async for token in pipeline.app.models.middle(text):
                yield token
        finally:
            pipeline.closed.append("outer")

    pipeline.caller(middle, "endless")
    pipeline.caller(outer, "middle")
    async with run(pipeline.app) as client:
        await leave_after_one(client, "outer", text="a")
        async with asyncio.timeout(20):
            while len(pipeline.closed) < 3:
                await asyncio.sleep(0)
    assert sorted(pipeline.closed) == ["endless", "middle", "outer"]


async def test_nested_stream_left_open_ends_with_the_call(pipeline: Pipeline) -> None:
    async def outer() -> str:
        async for token in pipeline.app.models.endless("a"):
            return token
        return ""

    pipeline.caller(outer, "endless")
    async with run(pipeline.app) as client:
        assert values(await client.infer("outer")) == ["a"]
        async with asyncio.timeout(20):
            while not pipeline.closed:
                await asyncio.sleep(0)


async def test_slow_reader_throttles_nested_stream(pipeline: Pipeline) -> None:
    async def outer() -> AsyncIterator[int]:
        async for _ in pipeline.app.models.endless("a"):
            for _ in range(100):
                await asyncio.sleep(0)
            yield pipeline.made
            return

    pipeline.caller(outer, "endless")
    async with run(pipeline.app) as client:
        (made,) = [values(item)[0] async for item in client.stream("outer")]
    assert 2 <= made <= 10


async def test_cancelling_a_call_cancels_nested_calls(pipeline: Pipeline) -> None:
    async def outer() -> str:
        return await pipeline.app.models.hangs()

    pipeline.caller(outer, "hangs")
    async with run(pipeline.app) as client:
        calling = asyncio.create_task(client.infer("outer"))
        await pipeline.began.wait()
        calling.cancel()
        await asyncio.wait([calling])
        assert pipeline.closed == ["hangs"]


async def test_waiting_thread_continues_when_its_call_ends(pipeline: Pipeline) -> None:
    raised: list[BaseException] = []
    over = threading.Event()

    def outer() -> str:
        try:
            return pipeline.app.models.hangs().result()
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            over.set()

    pipeline.caller(outer, "hangs")
    async with run(pipeline.app) as client:
        calling = asyncio.create_task(client.infer("outer"))
        await pipeline.began.wait()
        calling.cancel()
        await asyncio.wait([calling])
        assert await asyncio.to_thread(over.wait, 20)
    assert isinstance(raised[0], InferstreamError)


async def test_nested_calls_inherit_the_time_limit(pipeline: Pipeline) -> None:
    async def outer() -> str:
        return await pipeline.app.models.hangs()

    pipeline.caller(outer, "hangs", request_timeout=0.05)
    async with run(pipeline.app) as client:
        with pytest.raises(DeadlineExceeded):
            await client.infer("outer")
    assert pipeline.closed == ["hangs"]


async def test_call_waiting_for_its_own_caller_ends_at_default_limit(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "sets_limit", lambda settings: False)  # as if the limit were the default

    @pipeline.app.model(max_concurrency=1)
    async def narrow(text: str) -> AsyncIterator[str]:
        for _ in range(20):
            yield text

    async def outer() -> AsyncIterator[str]:
        async for text in pipeline.app.models.narrow("a"):
            async for inner in pipeline.app.models.narrow(text):
                yield inner

    pipeline.caller(outer, "narrow")
    async with run(pipeline.app, request_timeout=0.2) as client:
        with pytest.raises(DeadlineExceeded):
            async with asyncio.timeout(20):
                [_ async for _ in client.stream("outer")]


async def test_nested_calls_in_single_principal_batch_use_that_principal(pipeline: Pipeline) -> None:
    seen = seen_as_ada(pipeline)

    async def outer(words: list[str]) -> list[int]:
        return [await pipeline.app.models.length(word) for word in words]

    pipeline.caller(outer, "length", batch=2, within_ms=1)
    assert await infer(pipeline, "outer", words=["abc"]) == [3]
    assert seen == [("outer", "ada", ""), ("length", "ada", "model")]


async def test_unloaded_model_is_not_kept_alive_by_callers(pipeline: Pipeline) -> None:
    async def outer() -> int:
        return await pipeline.app.models.length("abc")

    pipeline.caller(outer, "length")
    async with run(pipeline.app) as client:
        await client.infer("outer")
        registry: Any = client.application._backend.dataplane._registry
        unloaded = weakref.ref(registry.get("length").execution)
        await registry.unload("length")
        gc.collect()
        assert unloaded() is None
        with pytest.raises(InferenceFailed):
            await client.infer("outer")


async def test_headers_principal_and_priority_are_passed_on(pipeline: Pipeline) -> None:
    seen = seen_as_ada(pipeline)

    async def outer() -> int:
        return await pipeline.app.models.length("abc")

    pipeline.caller(outer, "length")
    assert await infer(pipeline, "outer") == [3]
    assert seen == [("outer", "ada", ""), ("length", "ada", "model")]


async def test_caller_context_is_not_changed(pipeline: Pipeline) -> None:
    async def outer() -> bool:
        before = request_context()
        await pipeline.app.models.length("abc")
        async for _ in pipeline.app.models.tokens("a b"):
            assert request_context() is before
        return request_context() is before

    pipeline.caller(outer, "length", "tokens")
    assert await infer(pipeline, "outer") == [True]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"values": ("a", "b")}, 'model "length" takes 1 arguments, and 2 were given without a name'),
        ({"values": ("a",), "word": "b"}, 'model "length": argument "word" is given twice'),
        ({"wrod": "a"}, 'model "length": "wrod" is no argument; it takes word'),
        ({}, 'model "length": argument "word" is missing'),
        ({"word": 3}, 'model "length": argument "word" takes text, got 3'),
    ],
)
async def test_invalid_arguments_are_an_error_of_the_calling_model(
    pipeline: Pipeline, arguments: dict[str, Any], why: str
) -> None:
    given = arguments.pop("values", ())

    async def outer() -> int:
        return await pipeline.app.models.length(*given, **arguments)

    pipeline.caller(outer, "length")
    with pytest.raises(InferenceFailed) as failure:
        await infer(pipeline, "outer")
    assert why in str(failure.value.__cause__)


async def test_nested_refusal_is_not_a_client_error(pipeline: Pipeline) -> None:
    async def outer() -> str:
        return await pipeline.app.models.tokens("a b")  # a stream of two

    async def absent() -> str:
        return await pipeline.app.models.nobody()

    pipeline.caller(outer, "tokens")
    pipeline.caller(absent, "nobody")
    for model, why in (("outer", "model tokens: "), ("absent", "model nobody: ")):
        with pytest.raises(InferenceFailed, match=f"Model {model} failed") as failure:
            await infer(pipeline, model)
        assert why in str(failure.value.__cause__)


async def test_undeclared_model_cannot_be_called(pipeline: Pipeline) -> None:
    async def outer() -> int:
        return await pipeline.app.models.tokens("a")

    pipeline.caller(outer, "length", "mirrored")
    with pytest.raises(InferenceFailed) as failure:
        await infer(pipeline, "outer")
    assert 'may not call "tokens": its `calls` setting allows only: length, mirrored' in str(
        failure.value.__cause__
    )


async def test_models_are_callable_only_during_a_call(pipeline: Pipeline) -> None:
    kept: list[Any] = []

    async def outer() -> int:
        kept.append(pipeline.app.models)
        return 1

    async def plain() -> int:
        return await pipeline.app.models.length("a")

    pipeline.caller(outer, "length")
    pipeline.app.model(plain)
    with pytest.raises(RuntimeError, match="setting `calls`"):
        pipeline.app.models.length("a")
    async with run(pipeline.app) as client:
        await client.infer("outer")
        with pytest.raises(RuntimeError, match="the calling request to outer has ended"):
            await kept[0].length("a")
        with pytest.raises(InferenceFailed):
            await client.infer("plain")


async def test_blocking_call_in_coroutine_is_an_error(pipeline: Pipeline) -> None:
    async def outer() -> int:
        return pipeline.app.models.length("a").result()

    pipeline.caller(outer, "length")
    with pytest.raises(InferenceFailed) as failure:
        await infer(pipeline, "outer")
    assert "a coroutine calls models with `await`" in str(failure.value.__cause__)


async def test_circular_calls_are_refused_at_load(pipeline: Pipeline) -> None:
    async def first() -> str:
        return await pipeline.app.models.second()

    async def second() -> str:
        return await pipeline.app.models.first()

    pipeline.caller(first, "second")
    pipeline.caller(second, "first")
    with pytest.raises(ModelLoadFailed, match=r"(first|second) calls (first|second) calls "):
        await infer(pipeline, "first")


async def test_running_call_may_call_models_during_shutdown(pipeline: Pipeline) -> None:
    go = asyncio.Event()

    async def outer() -> int:
        pipeline.began.set()
        await go.wait()
        return await pipeline.app.models.length("abc")

    pipeline.caller(outer, "length")
    serving = run(pipeline.app)
    client = await serving.__aenter__()
    calling = asyncio.create_task(client.infer("outer"))
    await pipeline.began.wait()
    stopping = asyncio.create_task(serving.__aexit__(None, None, None))
    while not client.application._backend.dataplane._registry.draining:
        await asyncio.sleep(0)
    go.set()
    assert values(await calling) == [3]
    await stopping


@pytest.mark.parametrize(
    "settings", [{"parallel_workers": 1}, {"load": "demand"}, {"parameters": {"environment_path": "env"}}]
)
def test_calling_model_runs_in_the_same_process(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a model with `calls`"):
        ModelSettings(name="a", implementation="m.M", calls=["b"], **settings)
    assert ModelSettings(name="a", implementation="m.M", calls=["b"]).parallel_workers == 0


async def test_iterator_in_thread_ends_with_its_loop(pipeline: Pipeline) -> None:
    def outer() -> Iterator[str]:
        for count, token in enumerate(pipeline.app.models.endless("a")):
            yield token
            if count == 2:
                return

    pipeline.caller(outer, "endless")
    async with run(pipeline.app) as client:
        assert Counter([values(item)[0] async for item in client.stream("outer")]) == {"a": 3}
        async with asyncio.timeout(20):
            while pipeline.closed != ["endless"]:
                await asyncio.sleep(0)
