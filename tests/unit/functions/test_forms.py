"""Which models take requests of single values without tensors."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from inferstream import App, testing
from inferstream.functions.arguments import Arguments
from inferstream.types import InferenceRequest
from inferstream.types.values_request import InputsForm


def plain(a: int, b: float, c: str = "", d: bool | None = None) -> str: ...
def nothing() -> str: ...
def bounded(a: Annotated[int, Field(gt=0)]) -> str: ...
def chosen(a: Literal["x", "y"]) -> str: ...
def several(a: list[int]) -> str: ...
def binary(a: bytes) -> str: ...
def document(a: dict[str, Any]) -> str: ...
def streamed(a: AsyncIterator[str]) -> str: ...


def test_numbers_texts_and_booleans_are_taken_as_they_are() -> None:
    form = Arguments(plain).form()
    assert form is not None
    assert form.datatypes == {"a": "INT64", "b": "FP64", "c": "BYTES", "d": "BOOL"}
    assert form.required == {"a", "b"}
    assert Arguments(nothing).form() is not None


@pytest.mark.parametrize("function", [bounded, chosen, several, binary, document, streamed])
def test_arguments_that_need_more_are_read_from_tensors(function: Callable[..., Any]) -> None:
    assert Arguments(function).form() is None


def add(a: int, b: int = 1) -> int:
    return a + b


async def form_of(app: App, **settings: Any) -> InputsForm | None:
    async with testing.run(app, **settings) as client:
        return client.application.dataplane.admit("add").form


async def test_stages_that_read_tensors_take_the_form_away() -> None:
    app = App()
    app.model(add)
    assert await form_of(app) is not None

    cached = App()
    cached.model(cache_enabled=True)(add)
    assert await form_of(cached) is not None  # the server has no cache
    assert await form_of(cached, cache_enabled=True) is None

    seen: list[InferenceRequest] = []
    guarded = App()
    guarded.model(add)

    @guarded.middleware
    async def middleware(call: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        seen.append(call.request)
        return await call_next(call)

    assert await form_of(guarded) is None
