"""Lists of bytes that travel as base64 text, content type `base64`."""

import base64
import binascii
from typing import Any

from ..errors import CodecError
from ..types import RequestInput, ResponseOutput, TensorData
from .base import InputCodec, content_type
from .registry import register_input_codec


@register_input_codec
class Base64Codec(InputCodec):
    """A list of bytes to one BYTES tensor of shape [N, 1]."""

    ContentType = "base64"
    TypeHint = list[bytes]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return (
            isinstance(payload, list) and bool(payload) and all(isinstance(value, bytes) for value in payload)
        )

    @classmethod
    def encode_output(
        cls, name: str, payload: list[bytes], use_bytes: bool = True, **_: Any
    ) -> ResponseOutput:
        return ResponseOutput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> list[bytes]:
        return _decode(response_output, "output")

    @classmethod
    def encode_input(cls, name: str, payload: list[bytes], use_bytes: bool = True, **_: Any) -> RequestInput:
        return RequestInput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> list[bytes]:
        return _decode(request_input, "input")

    @classmethod
    def _fields(cls, name: str, payload: list[bytes], use_bytes: bool) -> dict[str, Any]:
        encoded = [base64.b64encode(value.encode() if isinstance(value, str) else value) for value in payload]
        return {
            "name": name,
            "shape": [len(encoded), 1],
            "datatype": "BYTES",
            "parameters": content_type(cls.ContentType),
            "data": TensorData(encoded if use_bytes else [value.decode() for value in encoded]),
        }


def _decode(tensor: RequestInput | ResponseOutput, kind: str) -> list[bytes]:
    try:
        return [base64.b64decode(value, validate=True) for value in tensor.data.flat()]
    except (binascii.Error, ValueError, TypeError) as error:
        raise CodecError(f'{kind} "{tensor.name}": not valid base64 ({error})') from None
