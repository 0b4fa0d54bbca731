"""HTTP itself: versions, connections that stay, chunks, heads that are wrong."""

import json

from ..http import Http, request
from .tensors import V2, asking, numbers, text

ECHO = f"{V2}/echo/infer"
STREAM = f"{V2}/stream/infer_stream"
BODY = json.dumps(numbers(), separators=(",", ":")).encode()
CHUNKED = b"5\r\n" + BODY[:5] + b"\r\n" + b"%x\r\n" % len(BODY[5:]) + BODY[5:] + b"\r\n0\r\n\r\n"


def same(name: str, *requests: bytes, **options: object) -> Http:
    return Http(name, [*requests], **options)


def infer(**options: object) -> bytes:
    return request("POST", ECHO, BODY, **options)


def stream(**options: object) -> bytes:
    return request("POST", STREAM, text(), **options)


LIVE = request("GET", "/v2/health/live")
CLOSE = {"Connection": "close"}
CHUNKS = {"Transfer-Encoding": "chunked"}

CASES = [
    same("two on one connection", infer(), infer()),
    same(
        "many kinds on one connection", infer(), LIVE, stream(), infer(), request("GET", "/nowhere"), infer()
    ),
    same("error, then another", request("POST", ECHO, b"{"), infer()),
    same("failed stream, then another", request("POST", STREAM, asking(fail_at=1)), infer()),
    same("pipelined", infer() + infer() + LIVE, answers=3),
    same("pipelined behind a stream", stream() + infer(), answers=2),
    same("close", infer(headers=CLOSE)),
    same("close of a stream", stream(headers=CLOSE)),
    same("close of health", request("GET", "/v2/health/live", headers=CLOSE)),
    same("keep-alive said", infer(headers={"Connection": "keep-alive"}), infer()),
    same("HTTP/1.0", infer(version="1.0")),
    same("HTTP/1.0 kept", infer(version="1.0", headers={"Connection": "keep-alive"}), infer()),
    same("HTTP/1.0 stream", stream(version="1.0")),
    same("HTTP/1.0 health", request("GET", "/v2/health/live", version="1.0")),
    same("HTTP/1.0 without host", b"GET /v2/health/live HTTP/1.0\r\n\r\n"),
    same("HTTP/1.0 unknown path", request("GET", "/nowhere", version="1.0")),
    same("HTTP/2.0", infer(version="2.0")),
    same("chunked", request("POST", ECHO, CHUNKED, headers=CHUNKS), infer()),
    same(
        "chunked stream",
        request(
            "POST",
            STREAM,
            b"%x\r\n" % len(json.dumps(text())) + json.dumps(text()).encode() + b"\r\n0\r\n\r\n",
            headers=CHUNKS,
        ),
    ),
    same(
        "chunked too large",
        request("POST", ECHO, b"186a1\r\n" + b" " * 100_001 + b"\r\n0\r\n\r\n", headers=CHUNKS),
    ),
    same("broken chunk", request("POST", ECHO, b"x\r\n", headers=CHUNKS)),
    same("expect", request("POST", ECHO, BODY, headers={"Expect": "100-continue"})),
    same(
        "expect too large",
        request("POST", ECHO, headers={"Expect": "100-continue", "Content-Length": "100001"}),
    ),
    same("no length", b"POST " + ECHO.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    same(
        "length no number",
        b"POST " + ECHO.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    ),
    same(
        "declared too large",
        b"POST "
        + ECHO.encode()
        + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100001\r\n\r\n"
        + b" " * 100_001,
    ),
    same("no HTTP", b"hello\r\n\r\n"),
    same("unknown method", b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    same("head too large", request("GET", "/v2", headers={"X-Long": "x" * 40_000})),
    same("too many headers", request("GET", "/v2", headers={f"X-{i}": "y" for i in range(101)})),
    same("absolute target", b"GET http://localhost/v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    same(
        "upgrade unknown",
        request("GET", "/v2/health/live", headers={"Connection": "Upgrade", "Upgrade": "h2c"}),
    ),
]
