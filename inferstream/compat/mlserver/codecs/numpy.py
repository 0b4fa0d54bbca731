"""NumPy arrays in tensors."""

from typing import Any

import numpy as np

from inferstream.codecs.lists import is_list_of
from inferstream.codecs.numpy import Array, NumpyCodec, NumpyRequestCodec, decoded, encoded, to_datatype
from inferstream.codecs.numpy import to_dtype as dtype_of
from inferstream.types import Datatype, RequestInput, ResponseOutput

Tensor = RequestInput | ResponseOutput


def to_dtype(input_or_output: Tensor | Datatype | str) -> "np.dtype[Any]":
    """The dtype of a tensor: of BYTES that of text, or of bytes as long as the last dimension; or of a datatype."""
    if not isinstance(input_or_output, RequestInput | ResponseOutput):
        return dtype_of(input_or_output)
    if input_or_output.datatype != "BYTES":
        return dtype_of(input_or_output.datatype)
    return np.dtype(str if is_list_of(input_or_output.data.root, str) else (bytes, input_or_output.shape[-1]))


def convert_nan(val: Any) -> Any:
    """None for a NaN, else the number."""
    return None if val != val else val


def _to_ndarray(input_or_output: Tensor) -> Array:
    return decoded(input_or_output, "input" if isinstance(input_or_output, RequestInput) else "output")


def _encode_data(data: Array, datatype: Datatype | str) -> list[Any]:
    values: list[Any] = encoded("", data, "output")["data"].root
    return values


__all__ = ["NumpyCodec", "NumpyRequestCodec", "convert_nan", "to_datatype", "to_dtype"]
