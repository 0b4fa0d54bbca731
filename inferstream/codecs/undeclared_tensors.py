"""Encoding and decoding of tensors that no model declares."""

from typing import Any

import numpy as np

from ..errors import CodecError
from ..types import MetadataTensor, RequestInput, ResponseOutput
from .numpy import NumpyCodec
from .registry import find_input_codec
from .string import StringCodec
from .values.arrays import Array
from .values.base import Value
from .values.declared import value_of_tensor
from .values.lists import ListOf
from .values.scalars import Binary, Text


def encode(name: str, value: Any) -> RequestInput:
    """Encode an array, a number, a string, bytes, or a list of these as an input tensor.

    Any other value is encoded by its codec. Raises CodecError for a value without a codec.
    """
    if isinstance(value, RequestInput):
        return value
    if isinstance(value, str | bytes):
        value = [value]
    if isinstance(value, list | tuple) and any(isinstance(element, str) for element in value):
        return StringCodec.encode_input(name, list(value))
    if not isinstance(value, np.ndarray):
        codec = find_input_codec(payload=value)
        if codec is not None and codec.ContentType not in ("base64", "json"):
            return codec.encode_input(name, value)
    try:
        array = np.asarray(value, dtype=object if _holds_bytes(value) else None)
    except ValueError as error:  # lists of different lengths
        raise CodecError(f'input "{name}": {error}') from error
    if array.dtype == object and not (isinstance(value, np.ndarray) or _holds_bytes(value)):
        raise CodecError(f'input "{name}": no codec makes a tensor of a {type(value).__name__}')
    tensor = NumpyCodec.encode_input(name, array)
    tensor.shape = [*array.shape] or [1]
    return tensor


def decode(output: ResponseOutput) -> Any:
    """Decode an output: an array of numbers, a single string or bytes value, or a list of several.

    The content types `json`, `pd_json`, `image` and `datetime` determine the Python type. Raises CodecError.
    """
    return _choose_value(output).decode_output(output)


def _choose_value(output: ResponseOutput) -> Value:
    if output.datatype != "BYTES":
        return Array(output.datatype)
    content = None if output.parameters is None else output.parameters.content_type
    single = output.data.flat()
    shape = [1] if len(single) == 1 else [-1]
    declared = MetadataTensor.model_construct(
        name=output.name, datatype="BYTES", shape=shape, parameters=output.parameters
    )
    value = value_of_tensor(declared)
    text = isinstance(value, Text) or (isinstance(value, ListOf) and isinstance(value.of, Text))
    if not text or content == "str" or all(map(_is_text, single)):
        return value
    return Binary() if len(single) == 1 else ListOf(Binary())


def _is_text(element: Any) -> bool:
    if isinstance(element, str):
        return True
    try:
        bytes(element).decode()
    except (UnicodeDecodeError, TypeError):
        return False
    return True


def _holds_bytes(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(element, bytes) for element in value)
