"""NumPy arrays in tensors."""

from typing import Any

import numpy as np

from inferstream.codecs.numpy import Array, NumpyCodec, NumpyRequestCodec, decoded, encoded, to_datatype
from inferstream.codecs.numpy import to_dtype as dtype_of
from inferstream.types import Datatype, RequestInput, ResponseOutput

Tensor = RequestInput | ResponseOutput


def to_dtype(input_or_output: Tensor | Datatype | str) -> "np.dtype[Any]":
    """The dtype that holds a tensor, or a datatype; BYTES becomes `object`."""
    if isinstance(input_or_output, RequestInput | ResponseOutput):
        return dtype_of(input_or_output.datatype)
    return dtype_of(input_or_output)


def convert_nan(val: Any) -> Any:
    """None for a NaN, else the number."""
    return None if val != val else val


def _to_ndarray(input_or_output: Tensor) -> Array:
    return decoded(input_or_output, "input" if isinstance(input_or_output, RequestInput) else "output")


def _encode_data(data: Array, datatype: Datatype | str) -> list[Any]:
    values: list[Any] = encoded("", data, "output")["data"].root
    return values


__all__ = ["NumpyCodec", "NumpyRequestCodec", "convert_nan", "to_datatype", "to_dtype"]
