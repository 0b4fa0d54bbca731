"""Requests before, behind and around a stream on one connection, as HTTP/1.1 allows them."""

import socket
from collections.abc import Iterator

import pytest

from tests.serving import Running, write_model

CODE = """
from collections.abc import Iterator

from fastapi.responses import StreamingResponse

from inferstream import MLModel, custom_handler


def count(n: int) -> Iterator[int]:
    yield from range(n)


def add(a: int) -> int:
    return a + 1


class Own(MLModel):
    @custom_handler("/own/stream", rest_method="GET")
    async def stream(self) -> StreamingResponse:
        return StreamingResponse(iter([b"one ", b"two"]))

    @custom_handler("/own/both", rest_method="GET")
    async def read(self) -> str:
        return "read"

    @custom_handler("/own/both")
    async def write(self) -> str:
        return "written"
"""
STREAM = ("POST", "/v2/models/count/generate_stream", b'{"n": 5}')
OWN = ("GET", "/own/stream", b"")
ADD = ("POST", "/v2/models/add/generate", b'{"a": 1}')


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("around") / "models"
    for name in ("count", "add", "Own"):
        write_model(folder, name, f"around_{name.lower()}.{name}", CODE, name=name)
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def request(method: str, path: str, body: bytes, **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] * bool(body)
    return "\r\n".join((*lines, "", "")).encode() + body


def received(served: Running, sent: bytes) -> bytes:
    """All that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", served.http_port), timeout=20) as opened:
        opened.sendall(sent)
        return b"".join(iter(lambda: opened.recv(65536), b""))


@pytest.mark.parametrize("stream", [STREAM, OWN], ids=["events", "own"])
def test_requests_after_stream_are_answered(served: Running, stream: tuple[str, str, bytes]) -> None:
    sent = request(*stream) + request(*stream) + request(*ADD, Connection="close")
    found = received(served, sent)
    assert found.count(b"HTTP/1.1 200 OK") == 3
    assert found.endswith(b'{"output":2,"model_name":"add","model_version":""}')


@pytest.mark.parametrize("stream", [STREAM, OWN], ids=["events", "own"])
def test_client_closes_after_stream(served: Running, stream: tuple[str, str, bytes]) -> None:
    found = received(served, request(*stream, Connection="close") + request(*ADD))
    assert found.count(b"HTTP/1.1") == 1
    assert b"connection: close" in found.lower()
    assert found.endswith(b"0\r\n\r\n")


def test_garbage_after_stream_is_refused(served: Running) -> None:
    found = received(served, request(*STREAM) + b"no request\r\n\r\n")
    assert found.count(b"data: ") == 5
    assert b"HTTP/1.1 400" in found


def test_stream_waits_for_its_body(served: Running) -> None:
    method, path, body = STREAM
    head = request(method, path, body, Expect="100-continue", Connection="close").removesuffix(body)
    with socket.create_connection(("127.0.0.1", served.http_port), timeout=20) as opened:
        opened.sendall(head)
        assert opened.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        opened.sendall(body)
        found = b"".join(iter(lambda: opened.recv(65536), b""))
    assert found.count(b"data: ") == 5


def test_unknown_model_sends_no_100_continue(served: Running) -> None:
    head = request("POST", "/v2/models/zz/generate_stream", b"{}", Expect="100-continue")
    assert received(served, head.removesuffix(b"{}")).startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    ("path", "allowed"), [("/own/stream", "GET, HEAD"), ("/own/both", "GET, POST, HEAD")]
)
@pytest.mark.parametrize("method", ["OPTIONS", "PUT"])
def test_custom_route_methods(served: Running, method: str, path: str, allowed: str) -> None:
    found = received(served, request(method, path, b"", Connection="close"))
    assert found.startswith(b"HTTP/1.1 405")
    assert f"\r\nallow: {allowed}\r\n".encode() in found
    assert received(served, request("HEAD", path, b"", Connection="close")).startswith(b"HTTP/1.1 200")
