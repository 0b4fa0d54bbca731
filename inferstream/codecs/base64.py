"""Lists of bytes as base64, content type `base64`."""

import base64
from typing import Any

from .lists import Element, ListCodec, is_list_of
from .registry import register_input_codec


@register_input_codec
class Base64Codec(ListCodec[bytes]):
    """Converts between a list of bytes and one BYTES tensor of shape [N, 1]."""

    ContentType = "base64"
    TypeHint = list[bytes]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return is_list_of(payload, bytes) and len(payload) > 0

    @classmethod
    def to_elements(cls, values: list[Any]) -> list[Any]:
        return [base64.b64encode(_bytes(value)) for value in values]

    @classmethod
    def from_elements(cls, elements: list[Element]) -> list[bytes]:
        present = [element for element in elements if element is not None]
        if len(present) < len(elements):
            raise ValueError("not valid base64 (a value is missing)")
        try:
            return [base64.b64decode(element, validate=True) for element in present]
        except (ValueError, TypeError) as error:
            raise ValueError(f"not valid base64 ({error})") from None


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    # `bytes` would read the memory of other objects with a buffer, such as NumPy numbers.
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"needs bytes, got {type(value).__name__}")
    return bytes(value)
