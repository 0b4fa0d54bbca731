"""Bytes and values of any type inside objects: JSON holds them as at the top level, in both directions."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import orjson
import pandas as pd
import pytest
from pydantic import Base64Bytes, BaseModel, ConfigDict
from typing_extensions import TypedDict

from inferstream.codecs.values.hints import value_for

T = TypeVar("T")


@dataclass
class Data:
    image: bytes


class Model(BaseModel):
    image: bytes


class Typed(TypedDict):
    image: bytes


class Named(NamedTuple):
    image: bytes
    count: int = 1


class Box(BaseModel, Generic[T]):
    image: T


class Own(BaseModel):
    model_config = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")
    image: bytes


class Encoded(BaseModel):
    image: Base64Bytes


class Fields(BaseModel):
    metadata: bytes
    type: bytes


@pytest.mark.parametrize(
    ("hint", "value", "right"),
    [
        (Data, Data(b"\x89P"), {"image": "iVA="}),
        (Model, Model(image=b"\x89P"), {"image": "iVA="}),
        (Typed, {"image": b"\x89P"}, {"image": "iVA="}),
        (list[Named], [Named(b"\x89P")], [["iVA=", 1]]),
        (Box[bytes], Box[bytes](image=b"\x89P"), {"image": "iVA="}),
        (dict[str, bytes], {"image": b"\x89P"}, {"image": "iVA="}),
        (dict[str, list[bytes | None]], {"a": [b"hi", None]}, {"a": ["aGk=", None]}),
        (list[Model], [Model(image=b"hi")], [{"image": "aGk="}]),
        (Model | None, Model(image=b"hi"), {"image": "aGk="}),
        (set[bytes], {b"hi"}, ["aGk="]),
        (Own, Own(image=b"\x89P"), {"image": "8950"}),
        (Encoded, Encoded(image=b"aGk="), {"image": "aGk="}),
        (Fields, Fields(metadata=b"hi", type=b"\x89P"), {"metadata": "aGk=", "type": "iVA="}),
    ],
)
def test_nested_bytes_are_base64(hint: Any, value: Any, right: Any) -> None:
    kind = value_for(hint)
    written = kind.encode_output("x", value)
    assert orjson.loads(written.data[0]) == right
    assert kind.from_json(right) == value
    assert kind.read(written) == value


def test_invalid_base64_is_refused_with_its_location() -> None:
    with pytest.raises(ValueError, match=r'field "image".*base64'):
        value_for(Model).from_json({"image": "!"})


def test_url_safe_base64_is_read() -> None:
    assert value_for(Model).from_json({"image": "__8="}).image == b"\xff\xff"


@pytest.mark.parametrize("hint", [Any, object, dict, dict[str, Any], dict[str, object]])
def test_values_of_any_type_are_written_consistently(hint: Any) -> None:
    kind = value_for(hint)
    value = {"label": np.argmax([1, 3]), "score": np.float32(0.5), "v": np.arange(2), "raw": b"\x89P"}
    written = kind.encode_output("x", value).data[0]
    assert written == '{"label":1,"score":0.5,"v":[0,1],"raw":"iVA="}'


@pytest.mark.parametrize(
    ("hint", "value", "right"),
    [
        (dict[str, int], {"a": np.int64(3)}, '{"a":3}'),
        (list[dict[str, float]], [{"a": np.float32(0.5)}], '[{"a":0.5}]'),
        (dict[str, list[int]], {"a": np.arange(2)}, '{"a":[0,1]}'),
        (Data, Data(np.bytes_(b"hi")), '{"image":"aGk="}'),
    ],
)
def test_numpy_numbers_and_arrays_match_python_types(hint: Any, value: Any, right: str) -> None:
    assert value_for(hint).encode_output("x", value).data[0] == right


@pytest.mark.parametrize(
    ("hint", "value", "right"),
    [
        (float, np.array([2.5]), 2.5),
        (int, np.array([[3]]), 3),
        (bool, np.array([True]), True),
        (datetime, np.datetime64("2024-01-01T10:00"), "2024-01-01T10:00:00"),
        (date, np.datetime64("2024-01-01"), "2024-01-01"),
        (list[str], np.array(["a", "b"], object), ["a", "b"]),
    ],
)
def test_numpy_scalars_are_results(hint: Any, value: Any, right: Any) -> None:
    data = value_for(hint).encode_output("x", value).data.flat()
    assert data == (right if isinstance(right, list) else [right])


@pytest.mark.parametrize(
    ("hint", "value"), [(float, np.array([1.0, 2.0])), (datetime, pd.NaT), (bool, np.array([1, 0]))]
)
def test_non_scalars_are_not_single_values(hint: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="takes"):
        value_for(hint).write(value)


def test_invalid_value_keeps_its_own_error() -> None:
    with pytest.raises(ValueError, match="valid integer"):
        value_for(dict[str, int]).write({"a": "x"})
