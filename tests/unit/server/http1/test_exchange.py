"""The beginning of responses, and the headers that applications may send."""

import pytest

from inferstream.server.http1.exchange import Openings, check_headers, refusal


def test_status_line_is_joined_with_default_headers() -> None:
    openings = Openings([(b"x-a", b"b")], dated=False)
    assert openings[200] == b"HTTP/1.1 200 OK\r\nx-a: b\r\n"
    assert openings[599] == b"HTTP/1.1 599 \r\nx-a: b\r\n"


def test_new_date_updates_all_default_headers() -> None:
    openings = Openings([], dated=True)
    before = openings[200]
    openings.pairs = []  # as of another second
    openings.renew()
    assert not openings.keys()
    assert openings[200][:21] == before[:21] == b"HTTP/1.1 200 OK\r\ndate"


def test_refusal_is_complete_and_closes_its_connection() -> None:
    head, body = refusal(503, "full").split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"connection: close" in head
    assert body == b'{"error":"full"}'


@pytest.mark.parametrize("header", [(b"a b", b"c"), (b"", b"c"), (b"a", b"c\r\nd: e"), (b"a", b"\x00")])
def test_header_with_line_break_is_refused(header: tuple[bytes, bytes]) -> None:
    assert check_headers([(b"X-A", b"b c")]) == [(b"x-a", b"b c")]
    with pytest.raises(ValueError, match="wrong name or value"):
        check_headers([header])
