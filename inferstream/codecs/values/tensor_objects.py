"""Arrays as JSON objects with base64 data: `{"shape": [2], "dtype": "float", "data": "..."}`."""

import base64
import binascii
import re
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .base import format_brief

KINDS = {
    "float": "float32",
    "double": "float64",
    "int32": "int32",
    "int64": "int64",
    "uint32": "uint32",
    "uint64": "uint64",
    "bool": "bool",
}
"""Dtype names with a special spelling. Other dtypes have their NumPy names."""

NAMES = {dtype: name for name, dtype in KINDS.items()}

KEYS = {"shape", "dtype", "data"}

_NAME = re.compile(r"[<>=|]?[A-Za-z]\w{0,15}", re.ASCII)


def decode_array_object(value: Any) -> npt.NDArray[Any] | None:
    """Decode an array object. Returns None for any other value. Raises ValueError for an invalid object."""
    if not isinstance(value, dict) or value.keys() != KEYS:
        return None
    shape, name, data = value["shape"], value["dtype"], value["data"]
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("has a shape that is no list of sizes")
    dtype = _parse_dtype(name)
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("has data that are no base64") from None
    wanted = prod(shape) * dtype.itemsize
    if len(raw) != wanted:
        raise ValueError(f"has {len(raw)} bytes for shape {shape} of {name}, which takes {wanted}")
    if dtype.kind == "b" and raw and max(raw) > 1:
        raise ValueError("has bytes that are neither 0 nor 1, and are no booleans")
    return np.frombuffer(raw, dtype.newbyteorder("<")).reshape(shape)


def _parse_dtype(name: Any) -> np.dtype[Any]:
    """Return the dtype with this name.

    Raises ValueError for an unknown name or a structured dtype.
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        try:
            dtype = np.dtype(KINDS.get(name, name))
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind in "biuf":
            return dtype
    raise ValueError(f"has an unknown dtype: {format_brief(name)}")


def object_of(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Encode an array as a JSON object."""
    dtype = array.dtype
    little = np.ascontiguousarray(array, dtype.newbyteorder("<"))
    return {
        "shape": [*array.shape],
        "dtype": NAMES.get(dtype.name, dtype.name),
        "data": base64.b64encode(little.tobytes()).decode(),
    }
