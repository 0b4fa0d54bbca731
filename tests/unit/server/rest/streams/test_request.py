"""The head of a request over HTTP/2, in HTTP/1's terms."""

from inferstream.server.http1.service import Service
from inferstream.server.http2.request import Request
from inferstream.server.rest.streams.request import Http2Head, to_http1_headers

PSEUDO = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/infer"), (b":authority", b"a.test:80")]


async def nothing(*_: object) -> None:
    raise AssertionError("no request is served")


SERVICE = Service(nothing, direct_bytes=10, route=lambda target: target, read=len)


def head(*fields: tuple[bytes, bytes], method: bytes = b"POST") -> Http2Head:
    return Http2Head(Request([(b":method", method), *PSEUDO[1:], *fields]), SERVICE)


def test_authority_becomes_the_host_header() -> None:
    request = Request([*PSEUDO, (b"accept", b"*/*"), (b"host", b"b.test")])
    assert to_http1_headers(request) == [(b"host", b"a.test:80"), (b"accept", b"*/*")]


def test_host_is_used_without_authority() -> None:
    assert to_http1_headers(Request([*PSEUDO[:3], (b"host", b"b.test")])) == [(b"host", b"b.test")]


def test_cookies_are_joined_into_one_header() -> None:
    request = Request([*PSEUDO[:3], (b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2")])
    assert to_http1_headers(request) == [(b"x", b"y"), (b"cookie", b"a=1; b=2")]


def test_small_post_of_known_length_is_served_directly() -> None:
    direct = head((b"content-length", b"10"))
    assert (direct.route, direct.meaning) == (b"/infer", 2)
    for other in (head(), head((b"content-length", b"11")), head((b"content-length", b"1"), method=b"PUT")):
        assert other.route is None


def test_expect_100_continue_is_supported() -> None:
    assert head((b"expect", b"100-continue")).expects
    assert not head().expects
