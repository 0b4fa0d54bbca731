"""Hostile HTTP/1: what one connection may make a port keep and compute, and what it must not pass off as a request."""

import json
import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.serving import Running, eventually, fp32, text, write_model

MOST = 40
"""Places of the server."""

BODY = json.dumps(fp32([1.0])).encode()
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
ENDED = b"0\r\n%s\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("http1") / "models"
    for name, code in (("echo", "Echo"), ("mirror", "Mirror"), ("streaming", "Streaming")):
        write_model(folder, name, f"faulty_models.{code}")
    settings = {"max_connections": MOST, "header_timeout": 1, "body_timeout": 2, "max_body_bytes": 2**20}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def connect(port: int, timeout: float = 10) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server closes; a reset is an error."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def ask(server: Running, *sent: bytes) -> bytes:
    """Send this, and read until the server closes."""
    with connect(server.http_port) as connection:
        for piece in sent:
            connection.sendall(piece)
        return rest(connection)


def post(model: str, body: bytes, *lines: bytes, action: bytes = b"infer") -> bytes:
    head = (
        b"POST /v2/models/%s/%s HTTP/1.1" % (model.encode(), action),
        b"Host: localhost",
        *lines,
        b"",
        body,
    )
    return b"\r\n".join(head)


def chunked(body: bytes, trailers: bytes, *lines: bytes, model: str = "mirror") -> bytes:
    chunks = b"%x\r\n%s\r\n%s" % (len(body), body, ENDED % trailers)
    return post(model, chunks, b"Transfer-Encoding: chunked", b"Connection: close", *lines)


def cpu(server: Running) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


# Trailers are no headers


def test_trailer_is_not_a_request_header(server: Running) -> None:
    body = json.dumps(text()).encode()
    answered = ask(server, chunked(body, b"X-Custom: forged\r\n", b"X-Custom: own"))
    assert b'"data":["own"]' in answered
    assert b"forged" not in answered


@pytest.mark.parametrize(
    "trailer",
    [
        b"Content-Encoding: br",
        b"Host: evil.example",
        b"Origin: https://evil.example",
        b"X-Request-Timeout: soon",
        b"X-Request-Id: forged",
        b"Inference-Header-Content-Length: x",
    ],
)
def test_trailer_is_ignored(server: Running, trailer: bytes) -> None:
    answered = ask(server, chunked(BODY, trailer + b"\r\n", model="echo"))
    assert answered.startswith(b"HTTP/1.1 200")
    assert b"forged" not in answered


# Bounds


def test_pipelined_requests_wait_in_socket(server: Running) -> None:
    """The client reads slowly, so that each of its responses lets the server read on."""
    before = server.rss()
    unsent = memoryview(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400_000)
    with connect(server.http_port) as connection:
        for _ in range(1000):
            readable, writable, _ = select.select([connection], [connection], [], 10)
            if writable:
                unsent = unsent[connection.send(unsent[:65536]) :]
            if readable:
                assert connection.recv(1000)
        server.probe()
        assert server.rss() - before < 20 * 2**20


def test_pipelined_responses_keep_order(server: Running) -> None:
    sent = b"".join(post("echo", b"{", b"Content-Length: 1") + LIVE for _ in range(300))
    with connect(server.http_port) as connection:
        connection.sendall(sent + LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answered = rest(connection)
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", answered)
    assert statuses == [b"400", b"200"] * 300 + [b"200"]


@pytest.mark.parametrize("port", ["http_port", "metrics_port"])
@pytest.mark.parametrize(
    "begun",
    [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\nX", b"GET / HTTP/1.1\r\nA: b\r\nX: y\r\nZ: "],
    ids=["url", "value", "name", "third"],
)
def test_endless_head_is_refused_at_limit(server: Running, port: str, begun: bytes) -> None:
    before = cpu(server)
    with connect(getattr(server, port)) as connection:
        connection.sendall(begun + b"x" * 33_000)
        assert rest(connection).startswith(b"HTTP/1.1 431 ")
    assert cpu(server) - before < 0.5


def test_endless_trailer_is_refused_at_limit(server: Running) -> None:
    sent = post("echo", b"%x\r\n%s\r\n0\r\nX: " % (len(BODY), BODY), b"Transfer-Encoding: chunked")
    assert ask(server, sent + b"x" * 33_000).startswith(b"HTTP/1.1 431 ")


def test_many_small_chunks_form_one_body(server: Running) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY + b" " * 20_000)
    sent = post("echo", chunks + ENDED % b"", b"Transfer-Encoding: chunked", b"Connection: close")
    assert b'"data":[1.0]' in ask(server, sent)


def test_head_in_single_bytes_is_parsed_once(server: Running) -> None:
    with connect(server.http_port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in LIVE:
            connection.send(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("port", ["http_port", "metrics_port"])
def test_incomplete_request_is_closed_at_every_port(server: Running, port: str) -> None:
    with connect(getattr(server, port)) as silent, connect(getattr(server, port)) as half:
        half.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        assert rest(half).startswith(b"HTTP/1.1 408 ")
        assert rest(silent) == b""


def test_probes_are_answered_when_all_slots_are_taken(server: Running) -> None:
    begun = post("echo", b"{", b"Content-Length: 100000")
    held = [connect(server.http_port) for _ in range(MOST)]
    try:
        for connection in held:
            connection.sendall(begun)  # has body_timeout, which is longer than this test
        eventually(lambda: ask(server, LIVE.replace(b"health/live", b"models")).startswith(b"HTTP/1.1 503 "))
        for path in (b"live", b"ready"):
            answered = ask(server, LIVE.replace(b"live", path))
            assert answered.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" in answered
        assert httpx.get(f"http://127.0.0.1:{server.metrics_port}/metrics").status_code == 200
    finally:
        for connection in held:
            connection.close()
    eventually(lambda: ask(server, LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))
    server.probe()


def test_metrics_port_has_own_slots(server: Running) -> None:
    begun = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    held = [connect(server.metrics_port) for _ in range(MOST)]
    try:
        for connection in held:
            connection.sendall(begun)
            assert connection.recv(65536).startswith(
                b"HTTP/1.1 404 "
            )  # and then waits for the rest of the body
        with connect(server.metrics_port) as one_more:
            one_more.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert rest(one_more).startswith(b"HTTP/1.1 503 ")
        with connect(server.metrics_port) as probe:
            probe.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert rest(probe).startswith(b"HTTP/1.1 200 ")
        server.probe()
    finally:
        for connection in held:
            connection.close()


def test_idle_probe_connections_do_not_block_probes(server: Running) -> None:
    held = [connect(server.http_port) for _ in range(MOST + 100)]
    try:
        assert ask(server, LIVE).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in held:
            connection.close()


# What is no request


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/0.9\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / RTSP/1.0\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: evil\\@127.0.0.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a@127.0.0.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET /v2/health/live HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n X: folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        (b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
        (post("echo", b"0\r\n\r\n", b"Transfer-Encoding: gzip, chunked"), 501),
        (post("echo", b"0\r\n\r\n", b"Transfer-Encoding: xchunked"), 400),
        (post("echo", b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
        (post("echo", b"0\r\n\r\n", b"Transfer-Encoding: chunked").replace(b"/1.1", b"/1.0"), 400),
        (post("echo", b"0\r\n\r\n", b"Transfer-Encoding: chunked", b"Content-Length: 5"), 400),
        (post("echo", b"{}", b"Content-Length: 2", b"Content-Length: 2"), 400),
        (post("echo", b"{}", b"Content-Length: +2"), 400),
        (post("echo", b"{}", b"Content-Length: 2, 2"), 400),
        (post("echo", b"2\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
        (post("echo", b"-2\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
        (post("echo", b"0x2\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
        (post("echo", b"2 \r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
        (post("echo", b"2\r\n{}X\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
        (post("echo", b"2;" + b"x" * 5000, b"Transfer-Encoding: chunked"), 400),
        (post("echo", b"0\r\nno trailer\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
    ],
)
def test_ambiguous_framing_is_refused(server: Running, sent: bytes, status: int) -> None:
    answered = ask(server, sent)
    assert answered.startswith(b"HTTP/1.1 %d " % status), answered
    assert answered.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("body", [BODY, b"{"], ids=["good", "bad"])
def test_garbage_after_request_keeps_response(server: Running, body: bytes) -> None:
    answered = ask(server, post("echo", body, b"Content-Length: %d" % len(body)) + b"garbage\r\n\r\n")
    first, second = answered.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 " if body == BODY else b"400 ")
    assert second.startswith(b"400 ")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (post("echo", b"", b"Content-Length: 8000000"), 413),
        (post("echo", b"", b"Content-Length: 8000000").replace(b"POST", b"PUT"), 405),
        (post("echo", b"7a1200\r\n", b"Transfer-Encoding: chunked"), 413),
        (b"POST /v2/health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n", 405),
        (b"X" * 40_000, 431),
    ],
    ids=["413", "405", "413 in chunks", "405 of a read", "431"],
)
def test_refusal_reaches_client_that_is_still_sending(server: Running, head: bytes, status: int) -> None:
    """A close with unread bytes would reset the connection, and take the refusal back."""
    with connect(server.http_port) as connection:
        connection.sendall(head)
        for _ in range(80):
            connection.sendall(b"x" * 100_000)
        answered = rest(connection)
    assert answered.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close\r\n" in answered


def test_small_unread_body_keeps_connection(server: Running) -> None:
    with connect(server.http_port) as connection:
        connection.sendall(b"POST /v2/health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 405 ")
        connection.sendall(b"0123456789" + LIVE)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_http_1_0_stream_is_not_chunked(server: Running) -> None:
    body = json.dumps(text()).encode()
    sent = post("streaming", body, b"Content-Length: %d" % len(body), action=b"infer_stream")
    head, _, events = ask(server, sent.replace(b"HTTP/1.1", b"HTTP/1.0")).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"\r\nconnection: close" in head
    assert events.startswith(b"data: ")
    assert events.endswith(b"\n\n")
    assert b"\r\n" not in events


@pytest.mark.parametrize("target", [b"http://localhost", b"http://localhost/", b"http://localhost?a=1"])
def test_absolute_url_without_path_is_root(server: Running, target: bytes) -> None:
    answered = ask(server, b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % target)
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert answered.endswith(b'{"status":"alive"}')


def test_bytes_after_upgrade_belong_to_websocket(server: Running) -> None:
    head = (
        b"GET /v2/models/echo/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with connect(server.http_port) as connection:
        connection.sendall(head + b"\x89\x80\x00\x00\x00\x00")  # an empty ping
        received = b""
        while b"\x8a\x00" not in received:
            piece = connection.recv(65536)
            assert piece, received
            received += piece
    assert received.startswith(b"HTTP/1.1 101 ")


def has_connection(server: Running, client: int) -> bool:
    """Whether the server's side of a client's connection is open."""
    ports = f":{server.http_port:04X} ", f":{client:04X} 01 "
    return any(
        ports[0] in line and ports[1] in line for line in Path("/proc/net/tcp").read_text().splitlines()
    )


def test_unread_response_times_out(start, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    (folder / "settings.json").write_text('{"stream_stall_timeout": 1}')
    server = start(folder)
    body = json.dumps(fp32([1.0] * 400_000)).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.http_port))
        connected = connection.getsockname()[1]
        with suppress(ConnectionError):  # on a busy machine the server drops it before it has sent all
            for _ in range(4):  # more than the sockets hold
                connection.sendall(post("echo", body, b"Content-Length: %d" % len(body)))
        eventually(lambda: "client has not read for 1 s" in server.text(), 10)
        eventually(lambda: not has_connection(server, connected), 10)


def test_head_timeout_starts_at_first_byte(server: Running) -> None:
    with connect(server.http_port) as connection:
        connection.sendall(LIVE)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        connection.sendall(LIVE[:20])
        assert rest(connection).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < 8  # and not the 75 s of an idle connection
