"""Requests in a form that costs a parser more than it costs the client."""

import socket
from contextlib import suppress

import pytest

from tests.cve.audited import Audited
from tests.serving import Running

CVES = ("CVE-2025-48956", "CVE-2025-23310", "CVE-2025-23311")

PATHS = (
    "/v2/models/echo/infer",
    "/v2/models/both/infer_stream",
    "/v1/chat/completions",
    "/generate",
    "/rpc",
    "/own/post",
    "/v2/repository/index",
    "/inference.GRPCInferenceService/ModelInfer",
    "/nowhere",
)
"""A path of each kind; the readers of bodies differ."""


REFUSED = (b"400", b"404", b"413", b"415")
"""What has no body to read is refused for what it is."""


def exchange(server: Running, sent: bytes, port: int = 0) -> bytes:
    """The beginning of what the server says to bytes, until it closes or says no more."""
    with socket.create_connection(("127.0.0.1", port or server.http_port), timeout=20) as opened:
        with suppress(ConnectionError):
            opened.sendall(sent)
        with suppress(ConnectionError):
            return opened.recv(65_536)
    return b""


def head(path: str, more: bytes = b"Transfer-Encoding: chunked\r\n") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n%b\r\n" % (
        path.encode(),
        more,
    )


@pytest.mark.parametrize("path", PATHS)
def test_body_of_one_byte_chunks_is_refused(watched: Audited, path: str) -> None:
    before = watched.rss()
    media = b"Transfer-Encoding: chunked\r\n"
    answer = exchange(watched, head(path, media) + b"1\r\n \r\n" * 70_000 + b"0\r\n\r\n")
    assert b"too many pieces" in answer or answer.split()[1:2] in ([b"404"], [b"415"]), answer
    assert watched.rss() < before + 50 * 2**20


@pytest.mark.parametrize("port", ["http", "metrics"])
@pytest.mark.parametrize(
    "more", [b"X-A: %b\r\n" % (b"a" * 3_000_000), b"".join(b"X-%d: a\r\n" % at for at in range(200_000))]
)
def test_oversized_head_is_refused_at_every_port(watched: Audited, port: str, more: bytes) -> None:
    answer = exchange(watched, head("/metrics", more), getattr(watched, f"{port}_port"))
    assert answer == b"" or b" 431 " in answer.splitlines()[0], answer[:200]


@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFF", b"7FFFFFFFFFFFFFFF", b"-1", b"0x10", b"1" * 5000])
def test_chunk_size_allocates_no_memory(watched: Audited, size: bytes) -> None:
    before = watched.rss()
    for path in PATHS:
        answer = exchange(watched, head(path) + size + b"\r\n" + b" " * 100)
        assert answer == b"" or answer.split()[1] in REFUSED, (path, answer)
    assert watched.rss() < before + 50 * 2**20
