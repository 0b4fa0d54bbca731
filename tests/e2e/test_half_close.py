"""A client that closes its sending side after its request gets the whole answer; one that has left is noticed."""

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.serving import Running, eventually

APP = """
import asyncio
import os
from collections.abc import AsyncIterator

from inferstream import App

app = App()


def note(line):
    with open(os.environ["TEST_LOG"], "a") as log:
        log.write(line + "\\n")


@app.model
async def slow(x: int) -> int:
    await asyncio.sleep(0.3)
    return x


@app.model
async def words(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i
        await asyncio.sleep(0.05)


@app.model
async def size(data: bytes) -> int:
    return len(data)


@app.model
async def silent(items: int) -> AsyncIterator[int]:
    try:
        note("silent begins")
        for i in range(items):
            yield i
        note("silent waits")
        await asyncio.Event().wait()
    finally:
        note("silent closed")
"""


@pytest.fixture(
    scope="module", params=[(), ("--one-port",), ("--workers", "1")], ids=["plain", "one port", "worker"]
)
def served(request, tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("half")
    (folder / "app.py").write_text(APP)
    running = Running(folder / "models", *request.param, target="app.py")
    yield running
    running.stop()


def requested(
    served: Running, path: str, body: bytes = b"", method: str = "POST", version: str = "1.1"
) -> bytes:
    head = f"{method} {path} HTTP/{version}\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def rest(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(65536):
        received += data
    return received


def exchanged(served: Running, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", served.http_port), timeout=20) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return rest(client)


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("padding", [0, 100_000, 5_000_000])
def test_complete_response(served: Running, version: str, padding: int) -> None:
    body = b'{"x": 1}' + b" " * padding
    answered = exchanged(served, requested(served, "/v2/models/slow/generate", body, version=version))
    head, _, content = answered.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert json.loads(content)["output"] == 1


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_complete_stream(served: Running, version: str) -> None:
    request = requested(served, "/v2/models/words/generate_stream", b'{"n": 5}', version=version)
    answered = exchanged(served, request)
    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answered.count(b"data:") == 5
    if version == "1.1":
        assert answered.endswith(b"0\r\n\r\n")


CALL = b'POST /v2/models/slow/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8\r\n\r\n{"x": 1}'
CHUNKED = (
    b"POST /v2/models/slow/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'4\r\n{"x"\r\n4\r\n: 1}\r\n0\r\n\r\n'
)
READ = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
STREAM = (
    b"POST /v2/models/words/generate_stream HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8\r\n\r\n"
    + b'{"n": 2}'
)
UPLOAD = (
    b"POST /v2/models/size/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n%b\r\n" % bytes(4096) * 20 + b"0\r\n\r\n"
)


@pytest.mark.parametrize(
    "parts",
    [
        (CALL, READ, CALL),
        (READ, READ, READ),
        (READ, CALL, READ),
        (CHUNKED,),
        (UPLOAD,),
        (CHUNKED, UPLOAD, CHUNKED),
        (READ, STREAM, READ, CALL),
    ],
    ids=["mixed", "reads", "around", "chunked", "upload", "uploads", "stream"],
)
@pytest.mark.parametrize("more", [b"", b"GET /v2 HT", b"POST / HTTP/1.1\r\nHost: a\r\n"])
def test_pipelined_responses(served: Running, parts: tuple[bytes, ...], more: bytes) -> None:
    answered = exchanged(served, b"".join(parts) + more)
    assert answered.count(b"HTTP/1.1 200 OK\r\n") == len(parts)
    assert answered.count(b'"output":1') == parts.count(CALL) + parts.count(CHUNKED) + parts.count(STREAM)
    assert answered.count(b'"output":81920') == parts.count(UPLOAD)


@pytest.mark.parametrize(
    "request_bytes",
    [b"", b"POST /v2/models/slow/gen", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab"],
)
def test_incomplete_request_is_dropped(served: Running, request_bytes: bytes) -> None:
    assert exchanged(served, request_bytes) == b""


@pytest.mark.parametrize("items", [0, 1])
def test_disconnected_client_ends_call(served: Running, items: int) -> None:
    before = served.log.read_text().count("silent closed")
    waits = served.log.read_text().count("silent waits")
    with socket.create_connection(("127.0.0.1", served.http_port), timeout=20) as client:
        body = json.dumps({"items": items}).encode()
        client.sendall(requested(served, "/v2/models/silent/generate_stream", body))
        eventually(lambda: served.log.read_text().count("silent waits") > waits)
        if items:
            client.recv(65536)
        client.shutdown(socket.SHUT_WR)
    eventually(lambda: served.log.read_text().count("silent closed") > before)
    assert httpx.get(f"{served.url}/v2/health/ready").status_code == 200
