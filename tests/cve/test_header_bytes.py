"""Bytes that no parser expects, in every header of every transport: a refusal or a normal response, never the end."""

import random
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.cve.audited import Audited
from tests.floods import DATA, END_HEADERS, END_STREAM, HEADERS, Peer, asking, literal, message
from tests.floods import frame as frame2

CVES = ("CVE-2026-22815",)
"""Trailers without a limit. The advisory on `Sec-WebSocket-Protocol` that ends a worker has no number."""

INFER = "/v2/models/echo/infer"
BODY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'

NAMES = (
    *(
        "Host",
        "Accept",
        "Accept-Encoding",
        "Authorization",
        "Connection",
        "Content-Encoding",
        "Content-Length",
    ),
    *("Content-Type", "Cookie", "Expect", "Forwarded", "Inference-Header-Content-Length", "Last-Event-ID"),
    *(
        "Origin",
        "Prefer",
        "Sec-Fetch-Site",
        "TE",
        "Traceparent",
        "Tracestate",
        "Trailer",
        "Transfer-Encoding",
    ),
    *("Upgrade", "User-Agent", "X-API-Key", "X-Forwarded-For", "X-Items-Per-Second", "X-Request-Id"),
    *(
        "X-Request-Priority",
        "X-Request-Timeout",
        "Ce-Id",
        "Ce-Type",
        "Mcp-Session-Id",
        "Mcp-Protocol-Version",
    ),
    *("Grpc-Timeout", "Grpc-Encoding", "X-Grpc-Web", "My-Data-Bin", "Access-Control-Request-Method"),
)
OF_UPGRADES = (
    *("Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions", "Sec-WebSocket-Key", "Sec-WebSocket-Version"),
    *("Host", "Origin", "Connection", "Upgrade", "Authorization", "X-Request-Id", "X-Request-Timeout"),
)
OF_CALLS = (
    *("grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "content-type", "te", "user-agent"),
    *(
        "authorization",
        "x-request-id",
        "x-request-priority",
        "my-data",
        "my-data-bin",
        "traceparent",
        "cookie",
    ),
    *(":authority", ":path", ":method", ":scheme"),
)


def values() -> Iterator[bytes]:
    """Byte strings, the same in each run."""
    chosen = random.Random(41)
    yield from (b"\xff", b"\x80" * 20, "é".encode(), "\U0001f600".encode(), b"\xed\xa0\x80", b"\xc0\xaf", b"")
    yield from (
        b'"',
        b",",
        b";=;",
        b"=" * 50,
        b"%ff%00",
        b"\x7f",
        b"\x01",
        b"a" * 8000,
        b"9" * 400,
        b"-1",
        b"nan",
    )
    for _ in range(12):
        some = bytes(chosen.randrange(1, 256) for _ in range(chosen.randrange(1, 60)))
        yield some.translate(None, b"\r\n\0")


VALUES = tuple(values())


def answers(server: Audited, sent: bytes, port: int) -> bytes:
    """The status of the response; nothing where the connection ends without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
        with suppress(ConnectionError):
            opened.sendall(sent)
            opened.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            return opened.recv(100).partition(b" ")[2][:3]
    return b""


def head(method: str, path: str, **headers: bytes) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in headers.items())
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (method.encode(), path.encode(), lines)


def goes_on(server: Audited, log: int) -> None:
    server.probe()
    assert "Traceback" not in server.text()[log:]


def allowed(status: bytes) -> bool:
    return status in (b"", b"101", b"501") or status[:1] in (b"2", b"4")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("port", "method", "path", "media"),
    [
        ("http", "POST", INFER, b"application/json"),
        ("http", "POST", "/v1/chat/completions", b"application/json"),
        ("http", "POST", "/rpc", b"application/json"),
        ("http", "GET", "/v2/models/echo", b""),
        ("http", "OPTIONS", INFER, b""),
        ("http", "POST", "/inference.GRPCInferenceService/ModelInfer", b"application/grpc-web+proto"),
        ("metrics", "GET", "/metrics", b""),
    ],
)
def test_any_header_bytes_are_refused_or_served(
    watched: Audited, name: str, port: str, method: str, path: str, media: bytes
) -> None:
    log = len(watched.text())
    body = asking("echo") if b"grpc" in media else BODY if media else b""
    for value in VALUES:
        headers = {"Host": b"127.0.0.1", "Content-Type": media, "Content-Length": b"%d" % len(body)}
        headers = {**headers, name: value}
        status = answers(watched, head(method, path, **headers) + body, getattr(watched, f"{port}_port"))
        assert allowed(status), (value, status)
    goes_on(watched, log)


@pytest.mark.parametrize("name", OF_UPGRADES)
def test_any_upgrade_header_bytes_are_refused_or_served(watched: Audited, name: str) -> None:
    log = len(watched.text())
    usual = {"Host": b"127.0.0.1", "Upgrade": b"websocket", "Connection": b"Upgrade"}
    usual |= {"Sec-WebSocket-Key": b"AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version": b"13"}
    for value in VALUES:
        sent = head("GET", "/v2/models/echo/stream", **{**usual, name: value})
        status = answers(watched, sent, watched.http_port)
        assert allowed(status), (value, status)
    goes_on(watched, log)


@pytest.mark.parametrize("name", OF_CALLS)
def test_any_metadata_bytes_are_refused_or_served(watched: Audited, name: str) -> None:
    log = len(watched.text())
    for value in VALUES:
        usual = {
            b":method": b"POST",
            b":scheme": b"http",
            b":path": b"/inference.GRPCInferenceService/ModelInfer",
            b":authority": b"127.0.0.1",
            b"te": b"trailers",
            b"content-type": b"application/grpc",
        }
        block = b"".join(literal(*pair) for pair in {**usual, name.encode(): value}.items())
        peer = Peer(watched.grpc_port)
        sent = [frame2(HEADERS, END_HEADERS, 1, block), frame2(DATA, END_STREAM, 1, asking("echo"))]
        peer.pour(iter(sent), 10)
        seen = peer.wait(lambda seen: seen.headers or seen.resets or seen.goaway, 10)
        peer.socket.close()
        assert seen.headers or seen.resets or seen.goaway or seen.closed
        for failed in (b"grpc-status\x0213", b"grpc-status\x012"):
            # A timeout that is no number is INTERNAL in gRPC, as its own servers answer it.
            assert failed not in seen.headers or name == "grpc-timeout", (value, seen.headers)
    goes_on(watched, log)


TRAILERS = (
    b"X-A: \xff\r\n",
    b"\xff: a\r\n",
    b": a\r\n",
    b"a\r\n",
    b"X-A: %b\r\n" % (b"a" * 100_000),
    b"X-A: a\r\n" * 50_000,
    b"Content-Length: 5\r\n",
    b"X-A: \x01\r\n",
)


@pytest.mark.parametrize(
    "path", [INFER, "/v1/chat/completions", "/rpc", "/inference.GRPCInferenceService/ModelInfer"]
)
def test_trailers_are_limited(watched: Audited, path: str) -> None:
    log, before = len(watched.text()), watched.rss()
    for trailer in TRAILERS:
        media = b"application/grpc-web+proto" if "GRPC" in path else b"application/json"
        whole = head(
            "POST", path, Host=b"127.0.0.1", **{"Content-Type": media, "Transfer-Encoding": b"chunked"}
        )
        status = answers(
            watched, whole + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(BODY), BODY, trailer), watched.http_port
        )
        assert allowed(status), (trailer[:40], status)
    assert watched.rss() < before + 50 * 2**20
    goes_on(watched, log)


def test_grpc_web_trailers_are_limited(watched: Audited) -> None:
    log = len(watched.text())
    for trailer in (
        literal(b"x", b"\xff"),
        literal(b"\xff", b"a"),
        literal(b":path", b"/"),
        literal(b"x", b"a" * 40_000),
    ):
        peer = Peer(watched.grpc_port)
        usual = (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/inference.GRPCInferenceService/ModelInfer"),
        )
        block = b"".join(literal(*pair) for pair in (*usual, (b"content-type", b"application/grpc")))
        flags = END_HEADERS | END_STREAM
        sent = [frame2(HEADERS, END_HEADERS, 1, block), frame2(DATA, 0, 1, message(b""))]
        peer.pour(iter([*sent, frame2(HEADERS, flags, 1, trailer)]), 10)
        seen = peer.wait(lambda seen: seen.headers or seen.resets or seen.goaway, 10)
        peer.socket.close()
        assert seen.headers or seen.resets or seen.goaway or seen.closed
    goes_on(watched, log)
