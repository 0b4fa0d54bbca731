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
    describe_unknown,
    narrow_bf16,
    view_raw,
    widen_bf16,
)


@given(st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=1))
def test_bf16_widening_and_narrowing(values: list[float]) -> None:
    wide = widen_bf16(narrow_bf16(np.array(values, np.float32)))
    assert np.allclose(wide, values, rtol=2**-7, atol=1e-30)


def test_fixed_size_datatypes_have_dtype_and_wire_size() -> None:
    assert DTYPES.keys() == WIRE_SIZES.keys() == {*Datatype.__members__} - {"BYTES"}
    for name, dtype in DTYPES.items():
        assert dtype.newbyteorder("<") == dtype
        assert WIRE_SIZES[name] == (2 if name == "BF16" else dtype.itemsize)


def test_enum_member_equals_its_name() -> None:
    assert NAMES[Datatype.FP32] == NAMES["FP32"] == "FP32"
    assert type(NAMES[Datatype.FP32]) is str
    assert "fp32" not in NAMES
    assert describe_unknown("fp32").startswith("unknown datatype 'fp32'; known are BOOL, UINT8")


def test_bf16_keeps_sign_and_exponent() -> None:
    numbers = np.array([1.0, -2.5, np.inf, 3.4e38], np.float32)
    raw = narrow_bf16(numbers)
    assert len(raw) == 2 * numbers.size
    assert np.allclose(widen_bf16(memoryview(raw)), numbers, rtol=2**-7)
    assert narrow_bf16(numbers[::2]) == raw[0:2] + raw[4:6], "also of a view"


@pytest.mark.parametrize("datatype", ["INT64", "FP16"])
def test_partial_value_is_a_protocol_error(datatype: str) -> None:
    with pytest.raises(ValueError, match=f"3 bytes are no whole number of {datatype} elements"):
        view_raw(b"abc", datatype)
