"""Server-sent events, however a connection cuts them."""

import pytest

from inferstream.clients.events import EventParser
from inferstream.clients.failures import parse_stream_error
from inferstream.errors import CallTimedOut

TEXT = b': ping\n\ndata: {"a":1}\n\nevent: error\ndata: broken\n\ndata: two\ndata: lines\n\ndata:bare\n\n'
EVENTS = [("", b'{"a":1}'), ("error", b"broken"), ("", b"two\nlines"), ("", b"bare")]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_events_do_not_depend_on_chunk_boundaries(newline: bytes) -> None:
    text = TEXT.replace(b"\n", newline)
    for size in range(1, len(text) + 1):
        parser = EventParser()
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert [event for piece in pieces for event in parser.parse(piece)] == EVENTS


def test_unterminated_event_is_ignored() -> None:
    assert list(EventParser().parse(b"data: half\n")) == []


def test_in_band_error_has_the_status_of_its_code() -> None:
    late = parse_stream_error(b'{"error":"too late","code":"deadline_exceeded"}')
    assert isinstance(late, CallTimedOut)
    assert (late.status, late.message, str(late)) == (504, "too late", "504: too late")
    assert parse_stream_error(b"no json").status == 500
