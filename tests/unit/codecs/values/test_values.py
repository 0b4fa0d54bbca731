"""Every type of argument: its declared tensor, round trips in each form of the wire, and its errors."""

import math
from datetime import date, datetime, time
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, StringConstraints

from inferstream import TensorInput, TensorOutput
from inferstream.codecs.values.declared import value_of_tensor
from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError
from inferstream.types import RequestInput, ResponseOutput, TensorData

from .samples import (
    DAY,
    NOON,
    SAMPLES,
    Color,
    Level,
    Person,
    Point,
    identity,
    through_binary,
    through_json,
    untyped,
)


@pytest.mark.parametrize("sample", SAMPLES, ids=identity)
def test_values_round_trip_through_every_wire_format(sample: tuple[Any, Any]) -> None:
    hint, given_value = sample
    value = value_for(hint)
    tensor = value.encode_input("x", given_value)
    tensor.data.check(tensor.datatype, tensor.shape)
    assert tensor.datatype == value.tensor("x").datatype
    assert value.decode_input(tensor) == given_value
    assert value.decode_input(through_binary(tensor)) == given_value
    output = value.encode_output("x", given_value)
    assert value.decode_output(output) == given_value
    assert value.decode_output(through_binary(output)) == given_value
    if given_value != math.inf:  # JSON has no infinity
        assert value.decode_input(through_json(value, "x", tensor)) == given_value


def test_metadata_has_choices_schemas_dimensions_and_constraints() -> None:
    def parameter(hint: Any, name: str) -> Any:
        parameters = value_for(hint).tensor("x").parameters
        assert parameters is not None
        return orjson.loads(parameters.get(name))

    assert parameter(Color, "choices") == ["red", "blue"]
    assert parameter(list[Literal[1, 2]], "choices") == [1, 2]
    assert parameter(TensorInput[np.int8, "n", 3, None], "dimensions") == ["n", 3, None]
    assert parameter(Point, "schema")["title"] == "Point"
    assert parameter(Annotated[int, Field(gt=0)], "schema")["exclusiveMinimum"] == 0


WRONG: list[tuple[Any, Any, str]] = [
    (int, "3", "takes INT64, got BYTES"),
    (int, 2**63, "out of range"),
    (int, 1.5, "takes INT64, got FP64"),
    (float, "x", "takes FP64, got BYTES"),
    (bool, 1, "takes BOOL, got INT64"),
    (str, 1, "takes BYTES, got INT64"),
    (str, b"\xff", "not UTF-8"),
    (bytes, "no base64!", "not valid base64"),
    (datetime, "yesterday", "not an ISO 8601 datetime"),
    (date, "2024-02-30", "not an ISO 8601 date"),
    (np.uint8, 256, "out of range for UINT8"),
    (Color, "green", "takes one of 'red', 'blue', got 'green'"),
    (Level, 3, "takes one of 1, 2, got 3"),
    (list[int], ["a"], "takes INT64, got BYTES"),
    (list[Color], ["red", "green"], "element 1 takes one of"),
    (list[datetime], [NOON.isoformat(), "x"], "element 1 not an ISO 8601"),
    (Point, '{"x": "a"}', 'field "x": input should be a valid integer'),
    (Point, "{", "not valid JSON"),
    (Any, "{", "not valid JSON"),
    (Person, '{"name": "a"}', 'field "born": field required'),
    (list[Point], '[{"x": 1}, {}]', 'field "1.x": field required'),
    (Annotated[int, Field(gt=0)], 0, "greater than 0"),
    (Annotated[str, StringConstraints(max_length=2)], "abc", "at most 2 characters"),
]


@pytest.mark.parametrize(("hint", "sent", "message"), WRONG)
def test_invalid_values_are_named(hint: Any, sent: Any, message: str) -> None:
    with pytest.raises(CodecError) as caught:
        value_for(hint).decode_input(untyped("x", sent))
    assert caught.value.message.startswith('input "x": ')
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("hint", "returned"),
    [
        (int, "3"),
        (int, 2**63),
        (int, True),
        (int, None),
        (float, None),
        (float, 10**400),
        (str, b"a"),
        (str, None),
        (bytes, "a"),
        (bool, 1),
        (datetime, "2024-01-01"),
        (date, NOON),
        (time, DAY),
        (Color, "green"),
        (Color, Level.LOW),
        (list[int], "ab"),
        (list[int], [1, "b"]),
        (list[str], ["a", None]),
        (Point, {"y": 1}),
        (dict[str, Any], {"a": object()}),
        (npt.NDArray[np.float32], ["a"]),
        (npt.NDArray[np.uint8], [256]),
        (npt.NDArray[np.int64], [1.5]),
        (npt.NDArray[np.int64], [[1], [2, 3]]),
        (TensorOutput[np.float32, 2], np.zeros(3, np.float32)),
        (Annotated[int, Field(gt=0)], -1),
    ],
)
def test_invalid_results_are_not_written(hint: Any, returned: Any) -> None:
    value = value_for(hint)
    assert not value.can_encode(returned)
    with pytest.raises(CodecError, match='output "y"'):
        value.encode_output("y", returned)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.lists(st.one_of(st.none(), st.integers(), st.text(), st.floats(), st.booleans()), max_size=4),
)


@settings(deadline=None)
@given(
    values=st.lists(VALUES, max_size=3), datatype=st.sampled_from(["BYTES", "INT64", "FP64", "BOOL", "FP32"])
)
def test_reading_any_tensor_gives_a_value_or_a_named_error(values: list[Any], datatype: str) -> None:
    for hint, _ in SAMPLES:
        tensor = RequestInput.of(name="x", datatype=datatype, shape=[len(values)], data=TensorData(values))
        try:
            tensor.data.check(datatype, tensor.shape)
            value_for(hint).decode_input(tensor)
        except (CodecError, ValueError):  # the second is of the check that every request gets
            continue


@settings(deadline=None)
@given(value=VALUES | st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
def test_reading_any_flat_object_gives_an_input_or_an_error(value: Any) -> None:
    for hint, _ in SAMPLES:
        declared = value_of_tensor(value_for(hint).tensor("x"))
        try:
            tensor = declared.input_from_flat("x", value)
            value_for(hint).decode_input(tensor)
        except (TypeError, ValueError, CodecError):
            continue


def test_bytes_outputs_are_distinguished_from_text() -> None:
    """The JSON writer names base64 only where bytes are no text."""
    value = value_for(list[bytes])
    assert value.decode_output(
        ResponseOutput.of(name="y", datatype="BYTES", shape=[1], data=TensorData(["aGVsbG8="]))
    ) == [b"aGVsbG8="]
