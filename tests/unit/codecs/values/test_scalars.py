"""Numbers, texts and bytes."""

import math
from datetime import datetime

import numpy as np
import pytest

from inferstream.codecs import StringCodec
from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData

from .samples import Color, Point, untyped


def test_number_among_strings_is_named() -> None:
    numbers = RequestInput.of(name="x", datatype="BYTES", shape=[1], data=TensorData([1]))
    with pytest.raises(CodecError, match='input "x": takes text, got 1'):
        value_for(str).decode_input(numbers)
    with pytest.raises(CodecError, match='input "x": needs text, got int'):
        StringCodec.decode_input(numbers)


def test_numpy_scalars_and_similar_types_are_written() -> None:
    assert value_for(float).encode_output("y", np.float32(0.5)).data.root == [0.5]
    assert value_for(int).encode_output("y", np.int8(3)).data.root == [3]
    assert value_for(bool).encode_output("y", np.bool_(True)).data.root == [True]
    assert value_for(bytes).encode_output("y", bytearray(b"a")).data.root == [b"a"]
    assert value_for(list[float]).encode_output("y", np.array([1.0, 2.0])).data.root == [1.0, 2.0]
    assert value_for(Color).encode_output("y", "red").data.root == ["red"]
    assert value_for(Point).encode_output("y", {"x": 3}).data.root == ['{"x":3,"y":0.0}']


def test_missing_number_is_nan_and_other_types_refuse_null() -> None:
    null = untyped("x", [1.0])
    null.data = TensorData([None])
    assert math.isnan(value_for(float).decode_input(null))
    for hint in (int, bool, str, datetime, Color):
        null.datatype = value_for(hint).datatype
        with pytest.raises(CodecError, match="null"):
            value_for(hint).decode_input(null)


def test_numbers_widen_without_changing() -> None:
    small = RequestInput.of(name="x", datatype="INT8", shape=[1], data=TensorData([7]))
    assert value_for(int).decode_input(small) == 7
    assert value_for(float).decode_input(small) == 7.0
    assert value_for(list[int]).decode_input(small) == [7]
    large = RequestInput.of(name="x", datatype="UINT64", shape=[1], data=TensorData([2**63]))
    with pytest.raises(CodecError, match="out of range"):
        value_for(int).decode_input(large)
    with pytest.raises(CodecError):
        value_for(list[int]).decode_input(large)
