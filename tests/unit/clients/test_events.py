"""Server-sent events, however a connection cuts them."""

import pytest

from inferstream.clients.events import EventParser
from inferstream.clients.failures import in_band
from inferstream.errors import CallTimedOut

TEXT = b': ping\n\ndata: {"a":1}\n\nevent: error\ndata: broken\n\ndata: two\ndata: lines\n\ndata:bare\n\n'
EVENTS = [("", b'{"a":1}'), ("error", b"broken"), ("", b"two\nlines"), ("", b"bare")]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_events_are_the_same_however_they_are_cut(newline: bytes) -> None:
    text = TEXT.replace(b"\n", newline)
    for size in range(1, len(text) + 1):
        parser = EventParser()
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


def test_an_event_without_its_end_is_none() -> None:
    assert list(EventParser().feed(b"data: half\n")) == []


def test_an_error_in_band_has_the_status_of_its_code() -> None:
    late = in_band(b'{"error":"too late","code":"deadline_exceeded"}')
    assert isinstance(late, CallTimedOut)
    assert (late.status, late.message, str(late)) == (504, "too late", "504: too late")
    assert in_band(b"no json").status == 500
