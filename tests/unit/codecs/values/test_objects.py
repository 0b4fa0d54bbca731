"""Values of JSON with a schema."""

import contextlib
from collections import namedtuple
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import orjson
import pytest
from pydantic import BaseModel

from inferstream.codecs.values.hints import value_for
from inferstream.codecs.values.objects import Json
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData

from .samples import Color, Movie, Pair, Person, Point


def text(value: str | bytes) -> RequestInput:
    return RequestInput.of("x", [1], "BYTES", TensorData([value]))


def test_types_missing_in_json_are_strings() -> None:
    person = value_for(Person).decode_input(text('{"name": "a", "born": "2024-02-29"}'))
    assert person == Person(name="a", born=date(2024, 2, 29))
    assert value_for(Pair).from_json(["l", 3]) == Pair("l", 3)


def test_object_is_written_by_schema_and_aliases() -> None:
    written = value_for(Person).encode_output(
        "y", Person(name="a", born=date(2024, 2, 29), **{"re-named": 3})
    )
    assert orjson.loads(written.data.flat()[0])["re-named"] == 3
    assert value_for(Point).encode_output("y", {"x": 1}).data.flat() == ['{"x":1,"y":0.0}']
    with pytest.raises(CodecError, match='output "y": field "x": input should be a valid integer'):
        value_for(Point).encode_output("y", {"x": "a"})


def test_only_instance_matches_its_class() -> None:
    value_for(Person).check(Person(name="a", born=date(2024, 2, 29)))
    with pytest.raises(TypeError, match="takes an instance of Person, got"):
        value_for(Person).check({"name": "a", "born": "2024-02-29"})
    with pytest.raises(ValueError, match="valid integer"):
        value_for(dict[str, int]).check({"a": "1"})


def test_any_type_may_hold_arrays_and_has_no_schema() -> None:
    free = value_for(Any)
    assert free.encode_output("y", {"a": np.arange(2)}).data.flat() == ['{"a":[0,1]}']
    assert free.tensor("x").parameters.get("schema") is None  # type: ignore[union-attr]
    with pytest.raises(CodecError, match='output "y": cannot be written as JSON'):
        free.encode_output("y", {"a": object()})


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("{", "not valid JSON"),
        ('{"x": 1e400}', "x"),
        ('{"y": 1}', 'field "x": field required'),
        (b"\xff", 'input "x"'),
    ],
)
def test_invalid_value_is_reported_with_its_location(sent: str | bytes, said: str) -> None:
    with pytest.raises(CodecError) as refused:
        value_for(Point).decode_input(text(sent))
    assert said in refused.value.message


@dataclass
class Dated:
    when: date


@pytest.mark.parametrize(
    "hint", [Any, dict, dict[str, int], tuple[int, str], Movie, Pair, Point, BaseModel, Dated]
)
def test_objects_are_sent_as_json(hint: Any) -> None:
    assert isinstance(value_for(hint), Json)


@pytest.mark.parametrize("hint", [int, str, Color, np.ndarray, type("C", (), {})])
def test_single_values_are_not_sent_as_json(hint: Any) -> None:
    with contextlib.suppress(TypeError):
        assert not isinstance(value_for(hint), Json)


def test_named_tuple_is_an_object_and_unvalidatable_class_is_refused() -> None:
    assert isinstance(value_for(namedtuple("Plain", "a b")), Json)
    with pytest.raises(TypeError, match="is not a type that can be sent"):
        Json(type("C", (), {}))
