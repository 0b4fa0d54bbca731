"""The beginning of responses, and the headers that applications may send."""

import pytest

from inferstream.server.http1.exchange import Openings, checked, refusal


def test_a_status_is_joined_with_the_headers_of_every_response() -> None:
    openings = Openings([(b"x-a", b"b")], dated=False)
    assert openings[200] == b"HTTP/1.1 200 OK\r\nx-a: b\r\n"
    assert openings[599] == b"HTTP/1.1 599 \r\nx-a: b\r\n"


def test_a_new_date_is_in_all_of_them() -> None:
    openings = Openings([], dated=True)
    before = openings[200]
    openings.pairs = []  # as of another second
    openings.renew()
    assert not openings.keys()
    assert openings[200][:21] == before[:21] == b"HTTP/1.1 200 OK\r\ndate"


def test_a_refusal_is_whole_and_ends_its_connection() -> None:
    head, body = refusal(503, "full").split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"connection: close" in head
    assert body == b'{"error":"full"}'


@pytest.mark.parametrize("header", [(b"a b", b"c"), (b"", b"c"), (b"a", b"c\r\nd: e"), (b"a", b"\x00")])
def test_a_header_that_would_break_the_response_is_refused(header: tuple[bytes, bytes]) -> None:
    assert checked([(b"X-A", b"b c")]) == [(b"x-a", b"b c")]
    with pytest.raises(ValueError, match="wrong name or value"):
        checked([header])
