"""Points in time as ISO 8601 text."""

from datetime import date, datetime, time

from inferstream.codecs import (
    DatetimeCodec,
)


def test_dates_and_times_are_iso_strings() -> None:
    output = DatetimeCodec.encode_output("x", [date(2026, 1, 2), time(3, 4), datetime(2026, 1, 2)])  # noqa: DTZ001
    assert output.data.root == [b"2026-01-02", b"03:04:00", b"2026-01-02T00:00:00"]
