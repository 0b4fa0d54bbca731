"""The text of long lists of numbers, which becomes an array without a Python object for each."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.types.json_numbers import PIECE, Malformed, NumbersText


def text(value: Any) -> NumbersText:
    made = NumbersText.of(json.dumps(value).encode())
    assert made is not None
    return made


@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 5),
    number=st.integers(-(2**31), 2**31 - 1),
    spaced=st.booleans(),
)
def test_nested_lists_give_shape_and_numbers(rows: int, columns: int, number: int, spaced: bool) -> None:
    nested = [[number] * columns for _ in range(rows)]
    made = NumbersText.of(json.dumps(nested, separators=(" , ", ":") if spaced else (",", ":")).encode())
    assert made is not None
    assert made.shape == [rows, columns]
    assert made.array("INT32").reshape(made.shape).tolist() == made.values() == nested


@pytest.mark.parametrize(
    "wrong",
    [b"[]", b"[ ]", b"[[1],[]]", b"[[1],[2,3]]", b"[[1]", b"[[1],2]", b"[1],[2]", b"[[[1]],[[2],[3]]]"],
)
def test_non_array_lists_are_left_to_another_parser(wrong: bytes) -> None:
    assert NumbersText.of(wrong) is None


def test_list_longer_than_a_chunk_is_the_same() -> None:
    numbers = np.arange(PIECE, dtype=np.int64)
    assert np.array_equal(text(numbers.tolist()).array("INT64"), numbers)
    nested = numbers.reshape(-1, 64)
    assert np.array_equal(text(nested.tolist()).array("FP64").reshape(nested.shape), nested)


@pytest.mark.parametrize(
    ("value", "datatype"),
    [([256], "UINT8"), ([-1], "UINT64"), ([0.5], "INT32"), ([1e300], "FP32"), ([2**64], "UINT64")],
)
def test_out_of_range_number_is_refused(value: list[float], datatype: str) -> None:
    with pytest.raises(ValueError):
        text(value).array(datatype)


@pytest.mark.parametrize(
    ("value", "datatype", "expected"),
    [
        ([2**64 - 1], "UINT64", 2**64 - 1),
        ([-(2**63)], "INT64", -(2**63)),
        ([1.0], "INT32", 1),
        ([None], "FP32", None),
    ],
)
def test_exact_numbers_are_preserved(value: list[Any], datatype: str, expected: Any) -> None:
    found = text(value).array(datatype)[0]
    assert np.isnan(found) if expected is None else found == expected


def test_list_with_missing_number_is_not_an_array() -> None:
    long = b"[" + b"1," * PIECE + b",1]"
    made = NumbersText.of(long)
    assert made is not None
    for read in (lambda: made.array("INT64"), made.values):
        with pytest.raises(Malformed):
            read()


def test_number_kinds_are_detected_in_the_text() -> None:
    assert text([1, 2]).whole
    assert not text([1, 2.5]).whole
    assert text([1, 2.5]).begins_whole
    assert not text([[1e5, 2]]).begins_whole
    assert text([1, None]).literals
    assert not text([1, 2]).literals
    assert np.isnan(text([1, float("nan")]).values()[1])
