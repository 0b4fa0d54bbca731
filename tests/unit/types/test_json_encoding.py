"""The JSON of Python values: one row per kind of value that NumPy, pandas and the standard library produce."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
import warnings
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pandas as pd
import pydantic
import pytest

from inferstream.protos.json_arrays import load_exactly
from inferstream.protos.json_requests import load_request
from inferstream.types.json_encoding import decode, encode, to_jsonable
from inferstream.types.json_numbers import NumbersText

BIG = 2**70


class Kind(enum.Enum):
    A = b"hi"


@dataclasses.dataclass
class Data:
    image: bytes
    more: object = None


class Model(pydantic.BaseModel):
    image: bytes = b"\x89P"
    more: Any = np.float32(0.1)


class Pair(NamedTuple):
    a: int
    b: object


@attrs.define
class Attrs:
    image: bytes


class Struct(msgspec.Struct):
    image: bytes


with warnings.catch_warnings(action="ignore"):
    MATRIX = np.asmatrix([[1, 2]])

VALUES = [
    ("a numpy integer", np.int64(3), 3),
    ("a numpy boolean", np.bool_(True), True),
    ("half precision", np.float16(0.5), 0.5),
    ("single precision", np.float32(0.1), 0.1),
    ("extended precision", np.longdouble(0.5), 0.5),
    ("numpy text", np.str_("x"), "x"),
    ("numpy bytes", np.bytes_(b"hi"), "aGk="),
    ("a strided view", np.arange(4)[::2], [0, 2]),
    ("a reversed view", np.arange(3)[::-1], [2, 1, 0]),
    ("Fortran order", np.asfortranarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ("big-endian", np.array([1, 2], ">i4"), [1, 2]),
    ("no dimensions", np.array(3.0), 3.0),
    ("no elements", np.zeros((0, 2)), []),
    ("masked", np.ma.array([1, 2], mask=[False, True]), [1, None]),
    ("a matrix", MATRIX, [[1, 2]]),
    ("objects", np.array(["a", None], object), ["a", None]),
    ("texts", np.array(["a", "bc"]), ["a", "bc"]),
    ("an array of bytes", np.array([b"hi"]), ["aGk="]),
    ("times", np.array(["2024-01-01", "NaT"], "M8[ns]"), ["2024-01-01T00:00:00", None]),
    ("durations", np.array([1, "NaT"], "m8[s]"), ["PT1S", None]),
    ("NaN and infinity", [float("nan"), np.float64("inf"), np.array([np.nan])], [None, None, [None]]),
    ("a timestamp", pd.Timestamp("2024-01-01T10:00", tz="UTC"), "2024-01-01T10:00:00+00:00"),
    ("no time", pd.NaT, None),
    ("nothing of pandas", pd.NA, None),
    ("a pandas duration", pd.Timedelta("1s"), "PT1S"),
    ("categories", pd.Categorical(["a", None]), ["a", None]),
    ("a series", pd.Series([1, None], dtype="Int64"), [1, None]),
    ("an index", pd.Index([1, 2]), [1, 2]),
    ("an index of several levels", pd.MultiIndex.from_tuples([(1, "a")]), [[1, "a"]]),
    ("a period", pd.Period("2024-01", "M"), "2024-01"),
    ("a frame", pd.DataFrame({"a": [1, 2]}), {"a": [1, 2]}),
    ("bytes", b"\x89P", "iVA="),
    ("a bytearray", bytearray(b"hi"), "aGk="),
    ("a view of bytes", memoryview(b"hi"), "aGk="),
    ("a decimal", decimal.Decimal("1.10"), "1.10"),
    ("a uuid", uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ("a path", pathlib.PurePosixPath("a/b"), "a/b"),
    ("a duration", dt.timedelta(minutes=1), "PT1M"),
    ("a date", dt.date(2024, 1, 2), "2024-01-02"),
    ("a member", Kind.A, "aGk="),
    ("a set", {1}, [1]),
    ("a frozen set", frozenset([b"hi"]), ["aGk="]),
    ("a queue", collections.deque([1]), [1]),
    ("a range", range(2), [0, 1]),
    ("keys", {"a": 1}.keys(), ["a"]),
    ("a counter", collections.Counter("aa"), {"a": 2}),
    ("a dataclass", Data(b"hi", np.arange(2)), {"image": "aGk=", "more": [0, 1]}),
    ("a pydantic model", Model(), {"image": "iVA=", "more": 0.1}),
    ("a named tuple", Pair(1, b"hi"), [1, "aGk="]),
    ("a class of attrs", Attrs(b"hi"), {"image": "aGk="}),
    ("a struct of msgspec", Struct(b"hi"), {"image": "aGk="}),
    ("a numpy key", {np.int64(3): 1}, {"3": 1}),
    ("a key of pandas", {pd.Timestamp("2024-01-01"): 1}, {"2024-01-01T00:00:00": 1}),
    ("an integer beyond 64 bits", BIG, BIG),
    ("many in one", {"a": BIG, "b": np.arange(2), "c": [Model()]}, None),
]


@pytest.mark.parametrize(("value", "right"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_values_are_encoded_as_json(value: Any, right: Any) -> None:
    if right is None and isinstance(value, dict):
        right = {"a": BIG, "b": [0, 1], "c": [{"image": "iVA=", "more": 0.1}]}
    assert json.loads(encode(value)) == right
    assert json.loads(encode({"key": [value]})) == {"key": [right]}
    assert json.loads(encode([BIG, value])) == [BIG, right]  # by the other way, for what orjson does not take
    pydantic.TypeAdapter(Any).dump_json(to_jsonable(value))


class Tensor:
    """One as of torch, whose values cannot be had."""

    def tolist(self) -> list[float]:
        raise NotImplementedError("it is sparse\nException raised from C++")


SELF: list[Any] = []
SELF.append(SELF)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1j, "complex"),
        (np.complex64(1), "complex64"),
        ({"a": np.array([1j])}, "complex128"),
        (object(), "object"),
        (Tensor(), "this Tensor: it is sparse$"),
        ((each for each in range(3)), "generator"),
        ({(1, 2): 1}, "key of type tuple"),
        (SELF, "refers to itself"),
        ("\ud800", "surrogates"),
    ],
)
def test_unsupported_values_are_refused_by_name(value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        encode(value)


def test_duplicate_column_names_are_refused() -> None:
    with pytest.raises(ValueError, match='more than one column "a"'):
        encode(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_integers_are_read_exactly() -> None:
    assert decode(f"[{BIG}, 1e30]") == [BIG, 1e30]
    assert type(decode(f"[{BIG}]")[0]) is int
    with pytest.raises(ValueError, match="UTF-8"):
        decode(b'"\xff"')


@pytest.mark.parametrize("size", [1, 20_000])
def test_integers_beyond_64_bits_are_exact_at_any_size(size: int) -> None:
    values = [2**70] * size
    text = json.dumps({"x": values, "y": {"z": 2**70}}).encode()
    document = load_exactly(load_request(text)[0], text)
    numbers = document["x"]
    assert (numbers.values() if isinstance(numbers, NumbersText) else numbers) == values
    assert document["y"] == {"z": 2**70}
