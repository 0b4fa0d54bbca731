"""Lists of points in time as ISO 8601 text, content type `datetime`."""

from datetime import date, datetime, time
from typing import Any

from .lists import Element, ListCodec, is_list_of
from .registry import register_input_codec
from .string import decode_strings


@register_input_codec
class DatetimeCodec(ListCodec[datetime | None]):
    """Converts between a list of datetimes, dates, times or ISO texts and one BYTES tensor of shape [N, 1]."""

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
            # A missing time is null in JSON. Raw bytes have no null, so it is empty there.
            return [datetime.fromisoformat(text) if text else None for text in decode_strings(elements)]
        except ValueError as error:
            raise ValueError(f"not an ISO 8601 time ({error})") from None


def _text(value: Any) -> str | None:
    if isinstance(value, date | time):
        return value.isoformat()
    if value is not None and not isinstance(value, str):
        raise TypeError(f"needs times, got {type(value).__name__}")
    return value
