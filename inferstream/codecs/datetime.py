"""Lists of points in time as ISO 8601 text, content type `datetime`."""

from datetime import datetime
from typing import Any

from ..errors import CodecError
from ..types import RequestInput, ResponseOutput, TensorData
from .base import InputCodec, content_type
from .registry import register_input_codec
from .string import decode_strings

Moments = list[str | datetime]


@register_input_codec
class DatetimeCodec(InputCodec):
    """A list of datetimes, or of ISO text, to one BYTES tensor of shape [N, 1]."""

    ContentType = "datetime"
    TypeHint = list[str | datetime]
    OtherTypeHints = (list[datetime],)

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return (
            isinstance(payload, list)
            and bool(payload)
            and all(isinstance(value, datetime) for value in payload)
        )

    @classmethod
    def encode_output(cls, name: str, payload: Moments, use_bytes: bool = True, **_: Any) -> ResponseOutput:
        return ResponseOutput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> list[datetime]:
        return _decode(response_output, "output")

    @classmethod
    def encode_input(cls, name: str, payload: Moments, use_bytes: bool = True, **_: Any) -> RequestInput:
        return RequestInput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> list[datetime]:
        return _decode(request_input, "input")

    @classmethod
    def _fields(cls, name: str, payload: Moments, use_bytes: bool) -> dict[str, Any]:
        texts = [value if isinstance(value, str) else value.isoformat() for value in payload]
        return {
            "name": name,
            "shape": [len(texts), 1],
            "datatype": "BYTES",
            "parameters": content_type(cls.ContentType),
            "data": TensorData([text.encode() for text in texts] if use_bytes else texts),
        }


def _decode(tensor: RequestInput | ResponseOutput, kind: str) -> list[datetime]:
    try:
        return [datetime.fromisoformat(text or "") for text in decode_strings(tensor, kind)]
    except ValueError as error:
        raise CodecError(f'{kind} "{tensor.name}": not an ISO 8601 time ({error})') from None
