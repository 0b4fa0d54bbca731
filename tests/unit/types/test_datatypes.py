"""Datatypes and the bytes of their elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.types.datatypes import (
    DTYPES,
    NAMES,
    WIRE_SIZES,
    Datatype,
    array_of,
    narrow_bf16,
    unknown,
    widen_bf16,
)


@given(st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=1))
def test_bf16_widens_and_narrows(values: list[float]) -> None:
    wide = widen_bf16(narrow_bf16(np.array(values, np.float32)))
    assert np.allclose(wide, values, rtol=2**-7, atol=1e-30)


def test_each_datatype_of_a_size_has_a_dtype_and_a_size_on_the_wire() -> None:
    assert DTYPES.keys() == WIRE_SIZES.keys() == {*Datatype.__members__} - {"BYTES"}
    for name, dtype in DTYPES.items():
        assert dtype.newbyteorder("<") == dtype
        assert WIRE_SIZES[name] == (2 if name == "BF16" else dtype.itemsize)


def test_a_member_and_its_name_are_one_name() -> None:
    assert NAMES[Datatype.FP32] == NAMES["FP32"] == "FP32"
    assert type(NAMES[Datatype.FP32]) is str
    assert "fp32" not in NAMES
    assert unknown("fp32").startswith("unknown datatype 'fp32'; known are BOOL, UINT8")


def test_a_bf16_has_the_sign_and_the_exponent_of_its_number() -> None:
    numbers = np.array([1.0, -2.5, np.inf, 3.4e38], np.float32)
    raw = narrow_bf16(numbers)
    assert len(raw) == 2 * numbers.size
    assert np.allclose(widen_bf16(memoryview(raw)), numbers, rtol=2**-7)
    assert narrow_bf16(numbers[::2]) == raw[0:2] + raw[4:6], "also of a view"


@pytest.mark.parametrize("datatype", ["INT64", "FP16"])
def test_half_a_value_is_an_error_in_words_of_the_protocol(datatype: str) -> None:
    with pytest.raises(ValueError, match=f"3 bytes are no whole number of {datatype} elements"):
        array_of(b"abc", datatype)
