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

from inferstream.codecs.values.hints import value_of
from inferstream.codecs.values.objects import Json
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData

from .samples import Color, Movie, Pair, Person, Point


def text(value: str | bytes) -> RequestInput:
    return RequestInput.of("x", [1], "BYTES", TensorData([value]))


def test_texts_stand_for_what_json_has_no_type_for() -> None:
    person = value_of(Person).decode_input(text('{"name": "a", "born": "2024-02-29"}'))
    assert person == Person(name="a", born=date(2024, 2, 29))
    assert value_of(Pair).from_json(["l", 3]) == Pair("l", 3)


def test_an_object_is_written_by_its_schema_and_its_aliases() -> None:
    written = value_of(Person).encode_output("y", Person(name="a", born=date(2024, 2, 29), **{"re-named": 3}))
    assert orjson.loads(written.data.flat()[0])["re-named"] == 3
    assert value_of(Point).encode_output("y", {"x": 1}).data.flat() == ['{"x":1,"y":0.0}']
    with pytest.raises(CodecError, match='output "y": field "x": input should be a valid integer'):
        value_of(Point).encode_output("y", {"x": "a"})


def test_only_an_instance_is_one_of_its_class() -> None:
    value_of(Person).check(Person(name="a", born=date(2024, 2, 29)))
    with pytest.raises(TypeError, match="takes an instance of Person, got"):
        value_of(Person).check({"name": "a", "born": "2024-02-29"})
    with pytest.raises(ValueError, match="valid integer"):
        value_of(dict[str, int]).check({"a": "1"})


def test_anything_may_hold_arrays_and_has_no_schema() -> None:
    free = value_of(Any)
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
def test_what_is_wrong_is_told_with_its_place(sent: str | bytes, said: str) -> None:
    with pytest.raises(CodecError) as refused:
        value_of(Point).decode_input(text(sent))
    assert said in refused.value.message


@dataclass
class Dated:
    when: date


@pytest.mark.parametrize(
    "hint", [Any, dict, dict[str, int], tuple[int, str], Movie, Pair, Point, BaseModel, Dated]
)
def test_objects_travel_as_json(hint: Any) -> None:
    assert isinstance(value_of(hint), Json)


@pytest.mark.parametrize("hint", [int, str, Color, np.ndarray, type("C", (), {})])
def test_single_values_do_not(hint: Any) -> None:
    with contextlib.suppress(TypeError):
        assert not isinstance(value_of(hint), Json)


def test_a_named_tuple_is_an_object_and_a_class_that_nobody_can_check_is_none() -> None:
    assert isinstance(value_of(namedtuple("Plain", "a b")), Json)
    with pytest.raises(TypeError, match="is no type that can be sent"):
        Json(type("C", (), {}))
