"""Arrays as objects with base64."""

import base64
from typing import Any

import numpy as np
import pytest

from inferstream.codecs.values.tensor_objects import decode_array_object, object_of
from inferstream.errors import InvalidRequest

from .test_flat import interface


def test_array_is_nested_lists_or_a_base64_object() -> None:
    array = np.array([1.5, 2], np.float32)
    for written in ([1.5, 2], object_of(array), {**object_of(array), "dtype": "float32"}):
        (tensor,) = interface("scale").arguments.read({"x": written})
        assert (tensor.datatype, tensor.shape, tensor.data.flat()) == ("FP32", [2], [1.5, 2.0])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"data": "!"}, "no base64"),
        ({"data": 5}, "no base64"),
        ({"data": "AAAA"}, "has 3 bytes for shape [2] of float, which takes 8"),
        ({"shape": [-2]}, "no list of sizes"),
        ({"shape": "2"}, "no list of sizes"),
        ({"shape": [2**62, 2**62]}, "has 8 bytes"),
        ({"dtype": "object"}, "unknown dtype: 'object'"),
        ({"dtype": "string"}, "unknown dtype"),
        ({"dtype": "<U4"}, "unknown dtype"),
        ({"dtype": None}, "unknown dtype: null"),
        ({"dtype": [1]}, "unknown dtype"),
        ({"dtype": "(3,f4"}, "unknown dtype"),  # NumPy evaluates the part before the comma
        ({"dtype": "()f4"}, "unknown dtype"),
        ({"dtype": "a" * 10_000}, "unknown dtype: 'aaaa"),
        ({"dtype": "bool", "shape": [1], "data": "Ag=="}, "neither 0 nor 1"),
    ],
)
def test_invalid_object_names_the_argument(change: dict[str, Any], fault: str) -> None:
    written = {**object_of(np.array([1.5, 2], np.float32)), **change}
    with pytest.raises(InvalidRequest) as wrong:
        interface("scale").arguments.read({"x": written})
    assert wrong.value.message.startswith('argument "x" has ')
    assert fault in wrong.value.message
    assert len(wrong.value.message) < 150


def test_object_keys_match_blazerpc() -> None:
    for dtype, name in ((np.float32, "float"), (np.float64, "double"), (np.bool_, "bool"), (np.int8, "int8")):
        array = np.arange(4).reshape(2, 2).astype(dtype)
        written = object_of(array)
        assert (written["dtype"], written["shape"]) == (name, [2, 2])
        read = decode_array_object(written)
        assert read is not None
        assert (read == array).all()
    big = object_of(np.array([1], ">i4"))
    assert base64.b64decode(big["data"]) == b"\1\0\0\0"
