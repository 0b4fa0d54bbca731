"""However a request arrives, whole or in pieces, small or large, it is answered alike."""

import json
import socket

import httpx
import pytest

from tests.serving import Running, fp32

BODY = json.dumps(fp32([1.0])).encode()


def head(*lines: bytes, path: bytes = b"/v2/models/echo/infer", version: bytes = b"1.1") -> bytes:
    return b"\r\n".join((b"POST %s HTTP/%s" % (path, version), b"Host: localhost", *lines, b"", b""))


LENGTH = b"Content-Length: %d" % len(BODY)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LARGE = BODY + b" " * 300_000

REQUESTS = {
    "whole": [head(LENGTH) + BODY],
    "body apart": [head(LENGTH), BODY],
    "in three pieces": [head(LENGTH)[:30], head(LENGTH)[30:] + BODY[:5], BODY[5:]],
    "chunked": [head(b"Transfer-Encoding: chunked") + CHUNKED],
    "large": [head(b"Content-Length: %d" % len(LARGE)) + LARGE],
    "with a query": [head(LENGTH, path=b"/v2/models/echo/infer?a=1") + BODY],
    "with an escape": [head(LENGTH, path=b"/v2/models/%65cho/infer") + BODY],
    "asking first": [head(LENGTH, b"Expect: 100-continue") + BODY],
    "asking for an upgrade": [head(LENGTH, b"Upgrade: x") + BODY],
}


def answers(connection: socket.socket, count: int) -> list[bytes]:
    """So many answers of known length, without the interim ones."""
    found = []
    received = b""
    while len(found) < count:
        while b"\r\n\r\n" not in received:
            received += receive(connection)
        lines, _, received = received.partition(b"\r\n\r\n")
        if lines.startswith(b"HTTP/1.1 100"):
            continue
        length = int(lines.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(received) < length:
            received += receive(connection)
        found.append(lines + b"\r\n\r\n" + received[:length])
        received = received[length:]
    assert not received
    return found


def receive(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    assert piece, "the server has closed the connection"
    return piece


def connect(server: Running) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.http_port), timeout=8)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@pytest.mark.parametrize("way", REQUESTS)
def test_every_body_encoding_keeps_connection_open(server: Running, way: str) -> None:
    with connect(server) as connection:
        for _ in range(2):
            for piece in REQUESTS[way]:
                connection.sendall(piece)
            (answer,) = answers(connection, 1)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer
            assert answer.lower().count(b"\r\ndate: ") == 1
            assert b'"data":[1.0]' in answer
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b'"live":true' in answers(connection, 1)[0]


def test_body_encodings_alternate_on_one_connection(server: Running) -> None:
    with connect(server) as connection:
        connection.sendall(b"".join(piece for way in REQUESTS for piece in REQUESTS[way] if way != "large"))
        found = answers(connection, len(REQUESTS) - 1)
    assert all(answer.startswith(b"HTTP/1.1 200 OK\r\n") for answer in found)


@pytest.mark.parametrize(
    "request_", [head(LENGTH, b"Connection: close") + BODY, head(LENGTH, version=b"1.0") + BODY]
)
def test_connection_closes_on_client_request(server: Running, request_: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(request_)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nconnection: close\r\n" in received


def test_incomplete_body_makes_no_call(server: Running) -> None:
    with connect(server) as connection:
        connection.sendall(head(LENGTH) + BODY[:5])
    server.probe()


@pytest.mark.parametrize("path", ["index", "models/echo/load", "models/echo/unload"])
def test_incomplete_repository_request_is_not_logged(server: Running, path: str) -> None:
    httpx.post(f"{server.url}/v2/repository/index", timeout=20).raise_for_status()
    before = server.text()
    with connect(server) as connection:
        begun = head(LENGTH, path=f"/v2/repository/{path}".encode()).replace(b"Host: x", b"Host: localhost")
        connection.sendall(begun + BODY[:5])
    server.probe()
    httpx.post(f"{server.url}/v2/repository/index", timeout=20).raise_for_status()
    assert server.text() == before
