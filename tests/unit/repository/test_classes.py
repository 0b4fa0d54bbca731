"""Classes that cannot serve a request, refused in a sentence."""

from collections.abc import Iterator
from typing import Any

import pytest

from inferstream import MLModel, ModelSettings, StepModel
from inferstream.errors import InvalidSettings
from inferstream.functions.function import Function
from inferstream.functions.model import model_class
from inferstream.handlers import custom_handler
from inferstream.repository.classes import check_constructor, check_methods, check_object, location_in

SETTINGS = ModelSettings(name="m", implementation="a.B")


class Good(MLModel):
    def predict(self, payload: Any) -> Any:
        return payload


class WithoutSettings(Good):
    def __init__(self) -> None: ...


class WithoutBase(Good):
    def __init__(self, settings: ModelSettings) -> None: ...


class Routed(MLModel):
    @custom_handler("/x")
    def x(self) -> str:
        return ""


class Steps(StepModel):
    def admit(self, request: Any) -> Any: ...

    def step(self, states: Any) -> Any: ...


class Wrong(MLModel):
    def predict(self) -> Any: ...  # type: ignore[override]


class WrongStream(MLModel):
    def predict_stream(self, payloads: Any, more: int) -> Iterator[Any]:  # type: ignore[override]
        yield payloads, more


def test_constructor_takes_settings() -> None:
    check_constructor(Good, SETTINGS)
    with pytest.raises(InvalidSettings, match=r"WithoutSettings\.__init__: it must take the settings"):
        check_constructor(WithoutSettings, SETTINGS)


def test_constructor_must_call_its_base() -> None:
    check_object(Good(SETTINGS))
    with pytest.raises(
        InvalidSettings, match=r"test_classes\.py, line \d+, .*WithoutBase\.__init__: write super"
    ):
        check_object(WithoutBase(SETTINGS))


@pytest.mark.parametrize("kind", [Good, Routed, Steps])
def test_model_serves_requests_or_custom_routes(kind: type[MLModel]) -> None:
    check_methods(kind(SETTINGS))


def test_class_without_methods_error_shows_what_to_write() -> None:
    with pytest.raises(InvalidSettings, match="class MLModel has neither predict nor predict_stream"):
        check_methods(MLModel(SETTINGS))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Wrong, r"Wrong\.predict: it cannot be called with a request: write predict\(self, payload\)"),
        (WrongStream, r"WrongStream\.predict_stream: .* write predict_stream\(self, payloads\)"),
    ],
)
def test_method_takes_a_request(kind: type[MLModel], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        check_methods(kind(SETTINGS))


def double(a: int) -> int:
    return 2 * a


def test_model_code_has_a_location() -> None:
    function = model_class(Function(double, "double"))(SETTINGS)
    for model, name in ((Good(SETTINGS), "predict"), (Steps(SETTINGS), "step"), (function, "double")):
        assert "test_classes.py" in location_in(model)
        assert name in location_in(model)
