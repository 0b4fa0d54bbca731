"""Heads of requests: what they say, and which are refused."""

import pytest

from inferstream.server.http1.heads import MAX_HEADERS, RequestRefused, check_beginning, parse_head


def head(*lines: str, first: str = "POST /a?b HTTP/1.1") -> bytes:
    return "\r\n".join((first, "Host: localhost", *lines, "", "")).encode("latin-1")


def test_head_defines_body_framing() -> None:
    found = parse_head(head("Content-Length: 12", "X-A: b"))
    assert (found.method, found.target, found.version) == (b"POST", b"/a?b", "1.1")
    assert (found.length, found.chunked, found.keep_alive, found.expects, found.upgrade) == (
        12,
        False,
        True,
        False,
        None,
    )
    assert found.headers[-1] == (b"x-a", b"b")
    assert parse_head(head("Transfer-Encoding: Chunked ")).chunked


@pytest.mark.parametrize(
    ("data", "keep_alive"),
    [
        (head(), True),
        (head("Connection: close"), False),
        (head("Connection: x , CLOSE"), False),
        (head("Connection: keep-alive", "Connection: close"), False),
        (head(first="GET / HTTP/1.0"), False),
        (head("Connection: keep-alive", first="GET / HTTP/1.0"), False),
    ],
)
def test_keep_alive_requires_http_1_1_without_close(data: bytes, keep_alive: bool) -> None:
    assert parse_head(data).keep_alive is keep_alive


def test_upgrade_needs_both_headers() -> None:
    assert parse_head(head("Upgrade: WebSocket", "Connection: keep-alive, Upgrade")).upgrade == b"websocket"
    assert parse_head(head("Upgrade: websocket")).upgrade is None


@pytest.mark.parametrize(
    "lines", [["X: y"] * MAX_HEADERS, ["Transfer-Encoding: gzip, chunked"], ["Host: other"]]
)
def test_malformed_heads_are_refused(lines: list[str]) -> None:
    with pytest.raises(RequestRefused):
        parse_head(head(*lines))


def test_only_http_1_0_client_may_omit_host() -> None:
    with pytest.raises(RequestRefused, match="has no Host header") as refused:
        parse_head(b"GET /v2/health/live HTTP/1.1\r\n\r\n")
    assert refused.value.status == 400
    assert parse_head(b"GET / HTTP/1.1\r\nHost:\r\n\r\n").version == "1.1"
    assert parse_head(b"GET / HTTP/1.0\r\n\r\n").version == "1.0"


@pytest.mark.parametrize(
    "data", [b"G", b"GET", b"GET /", b"M-SEARCH * HT", b"GET / HTTP/1.1\r\nA: b\r", b"OPTIONS "]
)
def test_partial_head_waits_for_its_end(data: bytes) -> None:
    check_beginning(data)


@pytest.mark.parametrize("data", [b"\x16\x03", b"get /", b"GET / HTTP/1.1\n", b"{", b" GET /", b"X" * 40])
def test_invalid_partial_head_is_refused_immediately(data: bytes) -> None:
    with pytest.raises(RequestRefused):
        check_beginning(data)
