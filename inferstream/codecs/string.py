"""Lists of strings, content type `str`."""

from types import NoneType
from typing import Any, cast

from ..types.conversion import TEXT
from .base import SingleInputRequestCodec
from .lists import Element, ListCodec, is_list_of
from .registry import register_input_codec, register_request_codec


def decode_str(encoded: bytes | str | None) -> str | None:
    """Decode UTF-8 bytes. Strings and None are returned unchanged. Raises TypeError or UnicodeDecodeError."""
    if encoded is None or isinstance(encoded, str):
        return encoded
    try:
        return str(encoded, "utf-8")  # `bytes(3).decode()` would return three NULs
    except TypeError:
        raise TypeError(f"needs text, got {type(encoded).__name__}") from None


def decode_strings(elements: list[Element]) -> list[str | None]:
    """Decode each element to a string. Raises ValueError if an element is not UTF-8."""
    try:
        return [decode_str(element) for element in elements]
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error})") from None


@register_input_codec
class StringCodec(ListCodec[str]):
    """Converts between a list of N strings and one BYTES tensor of shape [N, 1].

    Strings are encoded as UTF-8. None is a missing value. Decoding accepts any shape and returns a flat list.
    Raises CodecError for other datatypes, for values that are not strings, and for bytes that are not UTF-8.
    """

    ContentType = "str"
    TypeHint = list[str]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return is_list_of(payload, str)

    @classmethod
    def to_elements(cls, values: list[Any]) -> list[Any]:
        if len(values) == 1 and type(values[0]) is str:
            return values  # the usual case of a token
        if not TEXT.issuperset(map(type, values)):
            for value in values:
                if not isinstance(value, (str, bytes, NoneType)):
                    raise TypeError(f"needs text, got {type(value).__name__}")
        return values

    @classmethod
    def from_elements(cls, elements: list[Element]) -> list[str]:
        # None is rare, and `list[str | None]` would force every user to check each string.
        return cast("list[str]", decode_strings(elements))


@register_request_codec
class StringRequestCodec(SingleInputRequestCodec):
    """Converts between a list of strings and a request or response with one tensor."""

    TypeHint = list[str]
    InputCodec = StringCodec
    ContentType = "str"
