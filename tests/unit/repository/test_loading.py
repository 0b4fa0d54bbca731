"""Which models have an event loop of their own, and when a model counts as loaded."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from inferstream import MLModel, ModelSettings, StepModel
from inferstream.errors import ModelLoadFailed
from inferstream.functions.function import Function
from inferstream.functions.model import model_class
from inferstream.handlers import custom_handler
from inferstream.repository.loading import has_own_loop, load_model


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


class Plain(MLModel):
    def load(self): ...

    def predict(self, payload): ...


class Loads(Plain):
    async def load(self): ...


class Predicts(Plain):
    async def predict(self, payload): ...


class Wrapped(Plain):
    @wrapped
    async def predict(self, payload): ...


class Streams(Plain):
    async def predict_stream(self, payloads):
        yield


class Routed(Plain):
    @custom_handler(rest_path="/own")
    async def own(self): ...


class Steps(StepModel):
    def admit(self, request): ...

    async def step(self, states): ...


async def function(x: int) -> int:
    return x


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (Plain, False),
        (Loads, True),
        (Predicts, True),
        (Wrapped, True),
        (Streams, True),
        (Routed, True),
        (Steps, True),
        (model_class(Function(function, "function")), False),
    ],
)
def test_class_with_any_coroutine_is_async_and_a_function_is_not(kind: type[MLModel], own: bool) -> None:
    assert has_own_loop(kind, ModelSettings(name="m", implementation=kind)) is own
    for loop in ("own", "server"):
        settings = ModelSettings(name="m", implementation=kind, loop=loop)
        assert has_own_loop(kind, settings) is (loop == "own")


class ReturnsReady(Plain):
    async def load(self):
        return self.ready


class SetsReady(Plain):
    async def load(self):
        self.ready = False
        return self.ready


async def test_ready_counts_as_unset_until_model_has_loaded() -> None:
    settings = ModelSettings(name="m", implementation=ReturnsReady)
    loaded = await load_model(settings, 20)
    assert loaded.model.ready is True
    await loaded.unload()
    loaded.close()
    assert loaded.model.ready is False
    with pytest.raises(ModelLoadFailed, match=r"load\(\) returned False"):
        await load_model(ModelSettings(name="m", implementation=SetsReady), 20)
