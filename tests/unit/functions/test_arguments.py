"""The arguments of a call, read from its request."""
# names of dimensions are no names of types

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

import numpy as np
import orjson
import pytest
from pydantic import BaseModel, Field, PrivateAttr

from inferstream import (
    App,
    Depends,
    RequestContext,
    testing,
)
from inferstream.codecs.values.images import Image
from inferstream.codecs.values.lists import ListOf
from inferstream.codecs.values.objects import Json
from inferstream.dataplane.caller import Caller
from inferstream.errors import InvalidRequest
from inferstream.functions.arguments import Arguments
from inferstream.types import Headers, InferenceRequest, TensorData
from inferstream.types.conversion import join_bytes
from tests.unit.functions.serving import answer, values_of


async def test_invalid_arguments_are_refused_before_the_function_runs() -> None:
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
        metadata = client.application.models.admit("shown", None, Caller(Headers(()), "")).signature
        assert [t.parameters.get("default") for t in metadata.inputs] == ["null", "null", '"c"', "null"]


class Noted(BaseModel):
    """Knows the thread in which it was validated."""

    text: str
    _thread: str = PrivateAttr(default_factory=lambda: threading.current_thread().name)


@pytest.mark.parametrize("count", [1, 20_000])
async def test_large_coroutine_arguments_are_read_off_the_event_loop(
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
            [response] = [each async for each in client.stream(name, request)]
            (thread,) = response.outputs[0].data
            assert (thread == threading.current_thread().name) is (count == 1), name
        raw = InferenceRequest.model_validate({"inputs": [fields]})
        raw.inputs[0].data = TensorData.from_raw(join_bytes([text]), "BYTES")
        (thread,) = (await client.infer("whole", raw)).outputs[0].data
        assert (thread == threading.current_thread().name) is (count == 1)
        wrong = {**fields, "data": [text.replace('"a"', "1", 1)]}
        for name in ("whole", "items"):
            with pytest.raises(InvalidRequest, match=r'argument "notes": field "0.text"'):
                [_ async for _ in client.stream(name, InferenceRequest.model_validate({"inputs": [wrong]}))]


def test_images_are_read_off_the_event_loop() -> None:
    assert Image().reads_apart
    assert ListOf(Image()).reads_apart


def plain(a: int, b: float, c: str = "", d: bool | None = None) -> str: ...


def nothing() -> str: ...


def bounded(a: Annotated[int, Field(gt=0)]) -> str: ...


def chosen(a: Literal["x", "y"]) -> str: ...


def several(a: list[int]) -> str: ...


def binary(a: bytes) -> str: ...


def document(a: dict[str, Any]) -> str: ...


def streamed(a: AsyncIterator[str]) -> str: ...


def test_numbers_strings_and_booleans_are_passed_directly() -> None:
    form = Arguments(plain).form()
    assert form is not None
    assert form.datatypes == {"a": "INT64", "b": "FP64", "c": "BYTES", "d": "BOOL"}
    assert form.required == {"a", "b"}
    assert Arguments(nothing).form() is not None


@pytest.mark.parametrize("function", [bounded, chosen, several, binary, document, streamed])
def test_complex_arguments_are_read_from_tensors(function: Callable[..., Any]) -> None:
    assert Arguments(function).form() is None
