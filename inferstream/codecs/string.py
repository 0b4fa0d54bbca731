"""Lists of text, content type `str`."""

from typing import Any

from ..errors import CodecError
from ..types import RequestInput, ResponseOutput, TensorData
from .base import InputCodec, SingleInputRequestCodec, content_type
from .registry import register_input_codec, register_request_codec


def encode_str(text: str) -> bytes:
    """Text as UTF-8 bytes."""
    return text.encode()


def decode_str(encoded: bytes | str | None) -> str | None:
    """UTF-8 bytes or text as text; missing values stay missing. Raises UnicodeDecodeError."""
    return encoded if encoded is None or isinstance(encoded, str) else bytes(encoded).decode()


def decode_strings(tensor: RequestInput | ResponseOutput, kind: str) -> list[str | None]:
    """The elements of a BYTES tensor as text, flat. Raises CodecError naming the tensor."""
    if tensor.datatype != "BYTES":
        raise CodecError(f'{kind} "{tensor.name}": the "str" codec takes BYTES, got {tensor.datatype}')
    try:
        return [decode_str(value) for value in tensor.data.flat()]
    except (UnicodeDecodeError, ValueError) as error:
        raise CodecError(f'{kind} "{tensor.name}": not UTF-8 text ({error})') from None


@register_input_codec
class StringCodec(InputCodec):
    """A list of text to one BYTES tensor of shape [N, 1]."""

    ContentType = "str"
    TypeHint = list[str]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return isinstance(payload, list) and all(isinstance(value, str) for value in payload)

    @classmethod
    def encode_output(cls, name: str, payload: list[str], use_bytes: bool = True, **_: Any) -> ResponseOutput:
        return ResponseOutput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> list[str | None]:
        return decode_strings(response_output, "output")

    @classmethod
    def encode_input(cls, name: str, payload: list[str], use_bytes: bool = True, **_: Any) -> RequestInput:
        return RequestInput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> list[str | None]:
        return decode_strings(request_input, "input")

    @classmethod
    def _fields(cls, name: str, payload: list[str], use_bytes: bool) -> dict[str, Any]:
        values: list[Any] = list(payload)
        if use_bytes:
            values = [value.encode() if isinstance(value, str) else value for value in values]
        return {
            "name": name,
            "shape": [len(values), 1],
            "datatype": "BYTES",
            "parameters": content_type(cls.ContentType),
            "data": TensorData(values),
        }


@register_request_codec
class StringRequestCodec(SingleInputRequestCodec):
    """A request or response that is one list of text."""

    InputCodec = StringCodec
    ContentType = "str"
