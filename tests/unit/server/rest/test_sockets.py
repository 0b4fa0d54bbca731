"""WebSockets of our own port, against the client of the library that reads them."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from inferstream.concurrency.inflight import InflightBytes
from inferstream.errors import ModelNotReady
from inferstream.server.rest import sockets
from inferstream.server.rest.sockets import WebSocket
from tests.unit.server.http2.conversations import FakeTransport


class Door:
    """Opens a conversation that echoes, unless it refuses."""

    stall = 8.0
    silence = 40.0
    max_message = 1000
    too_large = "A message may have 1000 bytes."
    profile = "default"
    extensions: Any = ()
    inflight = InflightBytes()

    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.request_ids = self
        self.opened: list[Any] = []

    def choose_from_headers(self, headers: list[tuple[bytes, bytes]]) -> bytes | None:
        return dict(headers).get(b"x-request-id")

    def open(self, socket: WebSocket, path: str, headers: Any, request_id: bytes | None) -> "Echo":
        if self.refusal is not None:
            raise self.refusal
        self.opened.append((path, request_id))
        return Echo(socket)


class Echo:
    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.busy = False
        self.is_lost = False

    def receive(self, message: bytes, text: bool) -> None:
        self.socket.put(message, text)

    def lost(self) -> None:
        self.is_lost = True


class Transport(FakeTransport):
    """Ends its half when told, and stays there until it is aborted."""

    aborted = half_closed = False

    def write_eof(self) -> None:
        self.half_closed = True

    def abort(self) -> None:
        self.aborted = True


class Connected:
    """A socket and its client."""

    def __init__(self, door: Door | None = None, path: str = "/v2/models/a%20b/stream") -> None:
        self.door = door or Door()
        self.lost: list[WebSocket] = []
        self.socket = WebSocket(self.door, self.lost.append)  # type: ignore[arg-type]
        self.transport = Transport()
        self.socket.connection_made(self.transport)
        self.client = ClientProtocol(parse_uri(f"ws://127.0.0.1{path}"), max_size=None)
        request = self.client.connect()
        request.headers["X-Request-Id"] = "7"
        self.client.send_request(request)

    async def turn(self) -> list[Any]:
        """Exchange what both have written; what the client has received."""
        if written := b"".join(self.client.data_to_send()):
            self.socket.data_received(written)
        await asyncio.sleep(0)
        self.client.receive_data(self.transport.take())
        return self.client.events_received()

    @property
    def closed(self) -> tuple[int, str]:
        """The code and the reason that the client has received."""
        assert self.client.close_rcvd is not None
        return self.client.close_rcvd.code, self.client.close_rcvd.reason

    def leave(self) -> None:
        self.socket.connection_lost(None)


@pytest.fixture
async def connected() -> Any:
    made = Connected()
    [response] = await made.turn()
    assert isinstance(response, Response)
    assert (response.status_code, response.headers["x-request-id"]) == (101, "7")
    yield made
    made.leave()


def texts(frames: list[Any]) -> Iterator[bytes]:
    for frame in frames:
        assert isinstance(frame, Frame)
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            yield bytes(frame.data)


async def test_messages_keep_order_and_type(connected: Connected) -> None:
    assert connected.door.opened == [("/v2/models/a b/stream", b"7")]
    connected.client.send_text(b"one")
    connected.client.send_binary(b"two")
    first, second = await connected.turn()
    assert (first.opcode, first.data, second.opcode, second.data) == (
        *(Opcode.TEXT, b"one"),
        *(Opcode.BINARY, b"two"),
    )
    assert connected.transport.times_written == 2, "the upgrade, and both messages"


async def test_fragmented_message_is_joined(connected: Connected) -> None:
    connected.client.send_text(b"on", fin=False)
    connected.client.send_continuation(b"e", fin=True)
    assert [*texts(await connected.turn())] == [b"one"]


async def test_refused_upgrade_is_a_json_http_error() -> None:
    made = Connected(Door(ModelNotReady("m")))
    [response] = await made.turn()
    assert (response.status_code, response.headers["content-type"]) == (503, "application/json")
    assert response.headers["retry-after"] == "1"
    assert json.loads(response.body)["error"] == ModelNotReady("m").message
    assert made.transport.half_closed
    made.leave()


async def test_oversized_message_closes_the_socket(connected: Connected) -> None:
    connected.client.send_text(b"x" * 1001)
    await connected.turn()
    assert connected.closed == (1009, "A message may have 1000 bytes.")


@pytest.mark.parametrize(
    ("bound", "send", "said"),
    [
        ("MAX_CONTROLS", lambda client: [client.send_ping(b"") for _ in range(9)], "Too many pings."),
        ("MAX_FRAGMENTS", lambda client: [client.send_text(b"a", fin=False)] + [client.send_continuation(b"", fin=False) for _ in range(9)], "too many pieces"),
    ],
)  # fmt: skip
async def test_abusive_client_is_disconnected(
    connected: Connected, monkeypatch: pytest.MonkeyPatch, bound: str, send: Any, said: str
) -> None:
    monkeypatch.setattr(sockets, bound, 8)
    send(connected.client)
    await connected.turn()
    assert connected.closed[0] == 1008
    assert said in connected.closed[1]


async def test_disconnect_cancels_the_calls_of_the_client(connected: Connected) -> None:
    listener: Any = connected.socket._listener
    connected.client.send_close(1000)
    await connected.turn()
    assert listener.is_lost
    assert connected.transport.half_closed
    assert connected.lost == []
    connected.leave()
    assert connected.lost == [connected.socket]


async def test_silent_client_is_pinged_and_then_closed(connected: Connected) -> None:
    heard = connected.socket._heard
    assert connected.socket.idle(heard + 19)
    assert await connected.turn() == []
    assert connected.socket.idle(heard + 20)
    [ping] = await connected.turn()
    assert ping.opcode is Opcode.PING
    assert not connected.socket.idle(heard + 40)
    await connected.turn()
    assert connected.closed[0] == 1011


async def test_stop_waits_for_the_running_call(connected: Connected) -> None:
    listener: Any = connected.socket._listener
    listener.busy = True
    connected.socket.shutdown()
    assert await connected.turn() == []
    listener.busy = False
    connected.socket.handle_idle()
    await connected.turn()
    assert connected.closed[0] == 1001


async def test_message_waits_for_a_client_that_does_not_read(connected: Connected) -> None:
    assert connected.socket.send(b"one", True) is None
    connected.socket.pause_writing()
    waiting = asyncio.ensure_future(connected.socket.send(b"two", True))  # type: ignore[arg-type]
    third = asyncio.ensure_future(connected.socket.send(b"three", True))  # type: ignore[arg-type]
    assert [*texts(await connected.turn())] == [b"one"]
    assert not waiting.done()
    connected.socket.resume_writing()
    await asyncio.wait_for(asyncio.gather(waiting, third), 10)
    assert [*texts(await connected.turn())] == [b"two", b"three"]
