"""WebSocket clients that send nonsense, flood, fall silent, never read, or come from a foreign page."""

import base64
import functools
import json
import os
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.serving import Running, eventually, text, write_model

LIMIT = 4 * 2**20
"""What `max_body_bytes` is on the shared server."""

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


@contextmanager
def talk(server: Running, model: str, **options) -> Iterator[ClientConnection]:
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
    with connect(url, open_timeout=20, close_timeout=5, **options) as opened:
        yield opened


def receive(opened: ClientConnection) -> dict:
    return json.loads(opened.recv(timeout=10))


def works(opened: ClientConnection) -> bool:
    opened.send(json.dumps(text(id="works", parameters={"items": 0})))
    return receive(opened)["id"] == "works"


class Raw:
    """A client that does only what it is told: no pongs, no echo of a close."""

    def __init__(self, server: Running, model: str, extensions: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.http_port), timeout=10)
        key = base64.b64encode(os.urandom(16)).decode()
        offer = f"Sec-WebSocket-Extensions: {extensions}\r\n" if extensions else ""
        self.socket.sendall(
            f"GET /v2/models/{model}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{offer}\r\n".encode()
        )
        self.file = self.socket.makefile("rb")
        self.head = b"".join(iter(self.file.readline, b"\r\n"))
        assert b" 101 " in self.head.splitlines()[0]

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def ask(self, **request) -> None:
        self.send(frame(TEXT, json.dumps(text(**request)).encode()))

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """What the server sends, until it closes."""
        while head := self.file.read(2):
            size = head[1] & 127
            if size > 125:
                size = int.from_bytes(self.file.read(2 if size == 126 else 8), "big")
            yield head[0] & 15, self.file.read(size)

    def closed(self) -> int:
        """The code the server closes with."""
        return next(int.from_bytes(data[:2], "big") for kind, data in self.frames() if kind == CLOSE)


def frame(kind: int, data: bytes = b"", *, end: bool = True, compressed: bool = False) -> bytes:
    """A frame as a client sends it, masked with zeros."""
    head = kind | (0x80 if end else 0) | (0x40 if compressed else 0)
    size = len(data)
    if size < 126:
        return struct.pack("!BB4x", head, 0x80 | size) + data
    if size < 2**16:
        return struct.pack("!BBH4x", head, 0x80 | 126, size) + data
    return struct.pack("!BBQ4x", head, 0x80 | 127, size) + data


def deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, wbits=-15)
    return deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)


@functools.cache
def bomb() -> bytes:
    """200 MiB that travel as 200 KiB."""
    return deflated(bytes(200 * 2**20))


# -- what is wrong with one message costs nobody anything


@pytest.mark.parametrize(
    "message",
    [
        "nonsense",
        "",
        "[]",
        "null",
        "{",
        "[" * 100_000,
        '{"id": 5}',
        '{"id": "' + "x" * 300 + '"}',
        '{"cancel": true}',
        '{"part": "first", "inputs": []}',
        '{"id": "a", "part": "second"}',
        '{"id": "a", "id": "b", "inputs": []}',
        '{"id": "a"}',
        '{"id": "a", "inputs": 5}',
        '{"id": "a", "inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1]}]}',
        b"",
        b"\x01\x00",
        b"\xff\xff\xff\xff{}",
        b"\x02\x00\x00\x00[]",
        b"\x00\x00\x00\x00",
        b"\x02\x00\x00\x00{}left over",
    ],
    ids=lambda message: repr(message)[:40],
)
def test_bad_message_is_an_error_and_keeps_websocket(server: Running, message) -> None:
    with talk(server, "streaming") as opened:
        opened.send(message)
        answer = receive(opened)
        assert answer["code"] == "invalid"
        assert answer["error"]
        assert works(opened)


def test_invalid_utf8_closes_websocket(server: Running) -> None:
    with Raw(server, "streaming") as raw:
        raw.send(frame(TEXT, b'{"id": "\xff"}'))
        assert raw.closed() == 1007
    server.probe()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x81\x02{}",
        frame(3, b"{}"),
        frame(0, b"{}"),
        frame(TEXT, b"{", end=False) + frame(TEXT, b"}"),
        frame(PING, b"x" * 126),
        frame(TEXT, b"{}", compressed=True),
        frame(CLOSE, b"\x03"),
    ],
    ids=["unmasked", "opcode", "continuation", "interleaved", "long-ping", "rsv1", "short-close"],
)
def test_invalid_frames_close_websocket(server: Running, sent: bytes) -> None:
    with Raw(server, "streaming") as raw:
        raw.send(sent)
        assert raw.closed() == 1002
    server.probe()


@pytest.mark.parametrize("header", ["Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version"])
def test_a_bad_handshake_is_refused(server: Running, header: str) -> None:
    given = {"Upgrade": "websocket", "Sec-WebSocket-Key": "A" * 22 + "==", "Sec-WebSocket-Version": "13"}
    given[header] = "nonsense"
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=10) as connection:
        connection.sendall(
            f"GET /v2/models/echo/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n{lines}\r\n".encode()
        )
        assert connection.recv(100).split()[1] in (b"400", b"426")
    server.probe()


# -- pages


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_foreign_origin_is_refused_before_upgrade(server: Running, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused, talk(server, "streaming", origin=origin):
        pass
    assert refused.value.response.status_code == 403
    assert json.loads(refused.value.response.body)["error"]


def test_dns_rebinding_host_is_refused(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=10) as connection:
        connection.sendall(
            b"GET /v2/models/echo/stream HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n"
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")


def test_own_and_listed_origins_are_allowed(server: Running, serve, tmp_path) -> None:
    with talk(server, "streaming", origin=server.url) as opened:
        assert works(opened)
    folder = tmp_path / "models"
    write_model(folder, "streaming", "faulty_models.Streaming")
    (folder / "settings.json").write_text('{"cors_settings": {"allow_origins": ["https://page.example"]}}')
    listing = serve(folder)
    with talk(listing, "streaming", origin="https://page.example") as opened:
        assert works(opened)
    with (
        pytest.raises(InvalidStatus, match="403"),
        talk(listing, "streaming", origin="https://other.example"),
    ):
        pass


# -- too much


@pytest.mark.parametrize("pieces", [1, 5])
def test_a_message_over_the_limit_is_1009(server: Running, pieces: int) -> None:
    with talk(server, "streaming", compression=None) as opened:
        with pytest.raises(ConnectionClosed):
            opened.send("x" * (LIMIT + 1) if pieces == 1 else ["x" * LIMIT] * pieces)
            while True:
                opened.recv(timeout=10)
        assert opened.close_code == 1009
        assert opened.close_reason.endswith("(setting max_body_bytes).")
    server.probe()


@pytest.mark.parametrize("full", [False, True], ids=["at-once", "behind-a-full-message"])
def test_a_deflate_bomb_is_1009(server: Running, full: bool) -> None:
    before = server.rss()
    with Raw(server, "streaming", "permessage-deflate") as raw:
        assert b"permessage-deflate" in raw.head
        if full:
            raw.send(frame(TEXT, deflated(b" " * LIMIT), end=False, compressed=True), frame(0, bomb()))
        else:
            raw.send(frame(TEXT, bomb(), compressed=True))
        assert raw.closed() == 1009
    assert server.rss() - before < 48 * 2**20
    server.probe()


def test_a_million_empty_fragments_are_refused(server: Running) -> None:
    before = server.rss()
    with Raw(server, "streaming") as raw:
        with suppress(OSError):
            raw.send(frame(TEXT, end=False))
            for _ in range(1000):
                raw.send(frame(0, end=False) * 1000)
        assert raw.closed() == 1008
    assert server.rss() - before < 16 * 2**20
    server.probe()


def test_fragmented_message_is_joined(server: Running) -> None:
    with talk(server, "streaming") as opened:
        whole = json.dumps(text(id="pieces", parameters={"items": 0}))
        opened.send(list(whole))
        assert receive(opened)["id"] == "pieces"


@pytest.mark.parametrize("kind", [PING, PONG], ids=["ping", "pong"])
def test_ping_flood_closes_websocket(server: Running, kind: int) -> None:
    before = server.rss()
    with Raw(server, "streaming") as raw:
        with suppress(OSError):
            for _ in range(20):
                raw.send(frame(kind, b"x" * 125) * 1000)
        assert raw.closed() == 1008
    assert server.rss() - before < 16 * 2**20
    server.probe()


def test_pings_are_answered_with_pongs(server: Running) -> None:
    with talk(server, "streaming") as opened:
        assert opened.ping().wait(5)


def test_request_over_concurrency_limit_is_refused(server: Running, workers: int) -> None:
    with talk(server, "streaming") as opened:
        for i in range(65):
            opened.send(json.dumps(text(id=f"many{workers}-{i}", parameters={"before": 30})))
        refused = receive(opened)
        assert (refused["id"], refused["code"]) == (f"many{workers}-64", "overloaded")
        noted = lambda what: server.log.read_text().count(f"{what} many{workers}-")  # noqa: E731
        eventually(lambda: noted("start") == 64)  # a call that is cancelled before has no `finally`
        opened.send(json.dumps({"id": f"many{workers}-0", "cancel": True}))
        assert receive(opened)["code"] == "cancelled"
        assert works(opened)
    eventually(lambda: noted("finally") == 64)


def test_unread_responses_pause_reading(server: Running) -> None:
    before = server.rss()
    with Raw(server, "streaming") as raw:
        raw.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                raw.send(frame(TEXT, b"nonsense") * 1000)
        assert server.rss() - before < 32 * 2**20
        server.probe()


def test_unconsumed_parts_pause_reading(server: Running, workers: int) -> None:
    name = f"heap{workers}"
    before = server.rss()
    with Raw(server, "streaming") as raw:
        raw.ask(id=name, part="first", parameters={"items": 2, "delay": 60})
        eventually(lambda: server.noted(f"start {name}"))
        raw.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                raw.ask(id=name, part="next", value="x" * 10_000)
        assert server.rss() - before < 32 * 2**20
        server.probe()

    eventually(lambda: server.noted(f"finally {name}"))


def test_slow_model_receives_every_part(server: Running) -> None:
    with talk(server, "both") as opened:
        for i in range(200):
            part = "first" if i == 0 else "last" if i == 199 else "next"
            opened.send(json.dumps(text("x" * 5000, id="slow", part=part)))
        found = [receive(opened) for _ in range(201)]
    assert found[-1]["parameters"]["triton_final_response"] is True
    assert not any(item["parameters"]["triton_final_response"] for item in found[:-1])


# -- clients that are gone


@pytest.fixture(scope="module")
def strict(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("strict") / "models"
    for name, implementation in (("streaming", "Streaming"), ("spinning", "Spinning"), ("echo", "Echo")):
        write_model(folder, name, f"faulty_models.{implementation}")
    settings = {"websocket_silence_timeout": 1, "stream_stall_timeout": 1, "parallel_workers": workers}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def test_missing_pong_closes_websocket_and_ends_models(strict: Running) -> None:
    with Raw(strict, "streaming") as raw:
        raw.ask(id="mute", parameters={"items": 10**6, "delay": 0.05})
        eventually(lambda: strict.noted("start mute"))
        kinds = [kind for kind, _ in raw.frames()]
    assert PING in kinds
    assert kinds[-1] == CLOSE
    eventually(lambda: strict.noted("finally mute"))
    strict.probe()


def test_client_that_only_pongs_stays_connected(strict: Running) -> None:
    with talk(strict, "streaming") as opened:
        opened.send(json.dumps(text(id="quiet", parameters={"items": 2, "delay": 2.5})))
        assert [receive(opened)["parameters"]["triton_final_response"] for _ in range(3)] == [0, 0, 1]


def test_stalled_reader_is_dropped(strict: Running) -> None:
    with Raw(strict, "spinning") as raw:
        raw.ask(id="stall", parameters={"size": 65536})
        eventually(lambda: strict.noted("finally stall"), 8)
    strict.probe()


@pytest.mark.parametrize("how", ["reset", "fin", "close"])
def test_disconnect_ends_every_model(server: Running, workers: int, how: str) -> None:
    name = f"gone-{how}{workers}"
    with Raw(server, "streaming") as raw:
        for i in range(10):
            raw.ask(id=f"{name}-{i}", parameters={"items": 10**6, "delay": 0.05})
        eventually(lambda: server.log.read_text().count(f"start {name}-") == 10)
        if how == "reset":
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "fin":
            raw.socket.shutdown(socket.SHUT_WR)
        else:
            raw.send(frame(CLOSE, b"\x03\xe8"))
    eventually(lambda: server.log.read_text().count(f"finally {name}-") == 10)
    server.probe()


def test_slow_reader_can_cancel(server: Running, workers: int) -> None:
    name = f"buried{workers}"
    with Raw(server, "spinning") as raw:
        raw.ask(id=name, parameters={"size": 65536})
        eventually(lambda: server.noted(f"start {name}"))
        raw.send(frame(TEXT, json.dumps({"id": name, "cancel": True}).encode()))
        eventually(lambda: server.noted(f"finally {name}"))


def test_request_cancelled_in_same_packet_counts_as_cancelled(server: Running) -> None:
    def counted() -> list[float]:
        calls = server.metric("inferstream_calls_total", model="slow", end="cancelled")
        return [calls, server.metric("inferstream_queue_dropped_total", model="slow", reason="cancelled")]

    before = counted()
    messages = (text(id="at once"), {"id": "at once", "cancel": True})
    with Raw(server, "slow") as raw:
        raw.send(*(frame(TEXT, json.dumps(message).encode()) for message in messages))
        _, said = next(raw.frames())
        assert json.loads(said)["code"] == "cancelled"
    assert counted() == [number + 1 for number in before]
    assert not server.noted("start at once")


@pytest.mark.parametrize(
    "data",
    [
        frame(TEXT, b'{"id":"x","cancel":true}'),
        frame(TEXT, b'{"id":"x","part":"last"}'),
        frame(TEXT, b"", end=False) + frame(0, b'{"id":"x","cancel":true}'),
        frame(TEXT, b"{"),
    ],
    ids=["cancels", "parts", "fragments", "nonsense"],
)
def test_endless_messages_are_not_buffered(server: Running, data: bytes) -> None:
    """What one connection sends faster than it is parsed stays in its own buffers, however little is answered."""
    before, flood, sent = server.rss(), memoryview(data * 20_000), 0
    with Raw(server, "echo") as opened:
        opened.socket.setblocking(False)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            with suppress(BlockingIOError):
                sent += opened.socket.send(flood[sent % len(data) :][: 1 << 20])
        assert server.rss() < before + 24 * 2**20
    server.probe()
