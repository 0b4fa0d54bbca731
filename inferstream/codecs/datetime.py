"""Lists of datetimes in ISO 8601 format, content type `datetime`."""

from datetime import date, datetime, time
from typing import Any

from .lists import Element, ListCodec, is_list_of
from .registry import register_input_codec
from .string import decode_strings


@register_input_codec
class DatetimeCodec(ListCodec[datetime | None]):
    """Converts between a list of datetimes and one BYTES tensor of shape [N, 1].

    Encoding also accepts dates, times and ISO 8601 strings.
    """

    ContentType = "datetime"
    TypeHint = list[str | datetime]
    OtherTypeHints = (list[datetime],)

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return is_list_of(payload, datetime) and len(payload) > 0

    @classmethod
    def to_elements(cls, values: list[Any]) -> list[Any]:
        return [_text(value) for value in values]

    @classmethod
    def from_elements(cls, elements: list[Element]) -> list[datetime | None]:
        try:
            # A missing time is null in JSON. Raw bytes cannot hold null, so it is an empty element there.
            return [datetime.fromisoformat(text) if text else None for text in decode_strings(elements)]
        except ValueError as error:
            raise ValueError(f"not an ISO 8601 time ({error})") from None


def _text(value: Any) -> str | None:
    if isinstance(value, date | time):
        return value.isoformat()
    if value is not None and not isinstance(value, str):
        raise TypeError(f"needs times, got {type(value).__name__}")
    return value
