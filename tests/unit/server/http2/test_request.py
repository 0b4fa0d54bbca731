"""The head of a request."""

import pytest

from inferstream.server.http2.errors import StreamFault
from inferstream.server.http2.request import Request

HEAD = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a")]


def test_request_head_has_pseudo_headers_and_fields() -> None:
    request = Request([*HEAD, (b":authority", b"x"), (b"content-length", b"12"), (b"te", b"trailers")])
    assert (request.method, request.scheme, request.path, request.authority) == (
        b"POST",
        b"http",
        b"/a",
        b"x",
    )
    assert request.content_length == 12
    assert request.fields == ((b"content-length", b"12"), (b"te", b"trailers"))
    assert Request(HEAD).content_length is None


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (HEAD[:2], "a pseudo-header is missing"),
        ([*HEAD, HEAD[0]], "a pseudo-header is unknown or repeated"),
        ([*HEAD, (b":status", b"200")], "a pseudo-header is unknown or repeated"),
        ([*HEAD, (b"a", b"b"), (b":authority", b"x")], "a field's name is illegal"),
        ([*HEAD, (b"A", b"b")], "a field's name is illegal"),
        ([*HEAD, (b"a", b" b")], "a field's value is illegal"),
        ([*HEAD, (b"connection", b"close")], "a field belongs to HTTP/1.1"),
        ([*HEAD, (b"te", b"gzip")], "a field belongs to HTTP/1.1"),
        ([*HEAD, (b"content-length", b"1"), (b"content-length", b"2")], "the content-length is no length"),
        ([*HEAD, (b"content-length", b"-1")], "the content-length is no length"),
    ],
)
def test_malformed_head_ends_its_stream(headers: list[tuple[bytes, bytes]], reason: str) -> None:
    with pytest.raises(StreamFault) as fault:
        Request(headers)
    assert fault.value.reason == reason
