"""MLServer functions for JSON with arrays."""

import json
from typing import Any

import numpy as np
import orjson

from inferstream.codecs import CodecError, InputCodec
from inferstream.ext.values import encode_json
from inferstream.types import RequestInput, ResponseOutput


class JSONEncoderWithArray(json.JSONEncoder):
    """A JSON encoder for NumPy arrays and scalars, and for bytes, which are written as UTF-8 strings."""

    def default(self, obj: Any) -> Any:
        if isinstance(obj, np.ndarray | np.generic) and obj.dtype.kind in "biuf":
            return obj.tolist()
        return json.loads(encode_to_json_bytes(obj))


def encode_to_json(v: Any, use_bytes: bool = True) -> str | bytes:
    """Encode a value that can contain arrays as compact JSON. NaN becomes null. Raises TypeError."""
    text = encode_to_json_bytes(v)
    return text if use_bytes else text.decode()


def encode_to_json_bytes(v: Any) -> bytes:
    """Encode a value that can contain arrays as compact UTF-8 JSON. NaN becomes null. Raises TypeError."""
    try:
        return encode_json(v, text_bytes=True)
    except ValueError as error:  # bytes that are not UTF-8
        raise TypeError(str(error)) from None


def decode_from_bytelike_json_to_dict(v: bytes | str) -> Any:
    """Decode JSON. Raises CodecError."""
    try:
        return orjson.loads(v)
    except orjson.JSONDecodeError as error:
        raise CodecError(f"not valid JSON: {error}") from None


def decode_json_input_or_output(input_or_output: RequestInput | ResponseOutput) -> Any:
    """Decode each element of a BYTES tensor as JSON. Raises CodecError naming the tensor."""
    codec = InputCodec.find("json")
    assert codec is not None, "our own codecs are always registered"
    if isinstance(input_or_output, RequestInput):
        return codec.decode_input(input_or_output)
    return codec.decode_output(input_or_output)
