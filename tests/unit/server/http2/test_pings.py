"""PINGs that are acknowledged while the event loop does not read."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.server.http2 import frames, pings
from inferstream.server.http2.hpack import encode
from inferstream.server.http2.limits import Limits
from inferstream.server.http2.pings import PingResponder, walk
from inferstream.server.standin import Hold
from tests.examples import examples

from .conversations import HEAD as RESPONSE
from .conversations import FakeTransport, Served, read_frames
from .test_fuzz import START, in_a_loop

HEAD = encode(
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/late"),
        (b":authority", b"x"),
        (b"te", b"trailers"),
    ]
)


class SocketTransport(FakeTransport):
    """Writes into a socket, and keeps nothing unless it is told that the client does not read."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self._sock.send(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._sock if name == "socket" else super().get_extra_info(name, default)


class Client:
    """A connection with a client at the other end of a socket, and the responder that acts for it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.sock, self._ours = socket.socketpair()
        self.sock.setblocking(False)
        self._ours.setblocking(False)
        self.served = Served(limits)
        self.connection = self.served.connection
        self.transport = SocketTransport(self._ours)
        self.connection.transport = self.served.transport = self.transport
        self.responder = PingResponder([self.connection])
        self.send(START)
        self.loop_reads()
        self.received()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def loop_reads(self, most: int = 2**20) -> None:
        try:
            data = self._ours.recv(most)
        except BlockingIOError:
            return
        self.connection.data_received(data)

    def stand_in(self, hold: Hold | None = None) -> None:
        """What the thread does in one look."""
        for _ in self.responder.respond(hold or Hold(0, False)):
            pass

    def received(self) -> list[tuple[int, int, int, bytes]]:
        try:
            return list(read_frames(self.sock.recv(2**20)))
        except BlockingIOError:
            return []

    def acknowledged(self) -> list[bytes]:
        """The payloads of the PINGs that are acknowledged since the last time."""
        return [
            payload
            for kind, flags, _, payload in self.received()
            if (kind, flags) == (frames.PING, frames.ACK)
        ]

    def close(self) -> None:
        self.sock.close()
        self._ours.close()


@contextmanager
def connected(limits: Limits | None = None) -> Iterator[Client]:
    client = Client(limits)
    try:
        yield client
    finally:
        client.close()


def ping(number: int) -> bytes:
    return frames.ping(number.to_bytes(8, "big"), ack=False)


def gather(client: Client) -> None:
    """Let one of two streams write, so that its frames wait for the end of the turn."""
    for id in (1, 3):
        client.send(frames.headers(id, HEAD, False))
    client.loop_reads()
    stream = client.served.echoes[1].stream
    stream.open(RESPONSE)
    stream.send(b"", b"x")


def numbers(payloads: list[bytes]) -> list[int]:
    return [int.from_bytes(payload, "big") for payload in payloads]


async def test_a_ping_is_acknowledged_once_whoever_reads_it() -> None:
    with connected() as client:
        client.send(ping(1) + ping(2))
        client.stand_in()
        assert numbers(client.acknowledged()) == [1, 2]
        client.stand_in()  # in another hold, before the event loop has read
        client.send(ping(3))
        client.stand_in()
        assert numbers(client.acknowledged()) == [3]
        client.send(ping(4))
        client.loop_reads()
        assert numbers(client.acknowledged()) == [4]
        assert client.connection.answered_pings == 0


async def test_messages_that_streams_have_written_leave_before_the_acknowledgements() -> None:
    with connected() as client:
        gather(client)
        assert client.received() == []
        client.send(ping(1))
        client.stand_in()
        found = [(kind, id) for kind, _, id, _ in client.received()]
        assert found == [(frames.HEADERS, 1), (frames.DATA, 1), (frames.PING, 0)]
        await asyncio.sleep(0)
        assert client.received() == []


async def test_a_connection_without_a_descriptor_to_spare_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class NoMore:
        """A socket in a process that may open no further file."""

        def __init__(self, sock: socket.socket) -> None:
            self.fileno = sock.fileno

        def dup(self) -> socket.socket:
            raise OSError(24, "Too many open files")

    with connected() as client:
        gather(client)
        monkeypatch.setattr(client.transport, "get_extra_info", lambda *_: NoMore(client._ours))
        client.stand_in()
        await asyncio.sleep(0)
        assert [(kind, id) for kind, _, id, _ in client.received()] == [(frames.HEADERS, 1), (frames.DATA, 1)]


async def test_looks_of_one_hold_go_on_where_the_last_one_ended() -> None:
    hold = Hold(0, False)
    with connected() as client:
        client.stand_in(hold)
        for number in range(5):
            whole = frames.window_update(0, 1) + ping(number)
            client.send(whole[:20])
            client.stand_in(hold)
            assert client.acknowledged() == []
            client.send(whole[20:])
            client.stand_in(hold)
            assert numbers(client.acknowledged()) == [number]
        client.loop_reads()
        assert client.acknowledged() == []
        assert client.connection.answered_pings == 0


PADDED = frames.frame(frames.DATA, frames.PADDED, 1, b"\x05" + b"d" * 40 + b"p" * 5)
BODY = b"".join(
    [
        frames.headers(1, HEAD, False),
        ping(1),
        frames.frame(frames.DATA, 0, 1, b"d" * 60),
        ping(2),
        PADDED,
        ping(3),
        frames.ping(b"not ours", ack=True),
        frames.frame(frames.DATA, frames.END_STREAM, 1, ping(9)),  # data that looks like a PING
        ping(4),
    ]
)


@examples(300)
@given(st.integers(0, len(BODY)), st.lists(st.integers(0, len(BODY)), max_size=4), st.booleans())
def test_pings_are_found_wherever_the_event_loop_has_stopped(read: int, arrived: list, one: bool) -> None:
    def converse() -> None:
        with connected() as client:
            client.send(BODY[:read])
            client.loop_reads()
            hold = Hold(0, False)
            before = read
            for at in sorted({max(point, read) for point in arrived}):
                client.send(BODY[before:at])
                before = at
                client.stand_in(hold if one else None)
            assert numbers(client.acknowledged()) == [
                n for n in range(1, 5) if BODY.find(ping(n)) + 17 <= before
            ]
            client.send(BODY[before:])
            client.stand_in(hold if one else None)
            client.loop_reads(7)
            client.stand_in()
            client.loop_reads()
            assert client.served.echoes[1].ended
            assert client.connection.answered_pings == 0
            assert not client.connection.ended

    in_a_loop(converse)


@examples(200)
@given(
    st.lists(
        st.one_of(
            st.integers(0, 2**64 - 1).map(ping),
            st.binary(min_size=8, max_size=8).map(lambda payload: frames.ping(payload, ack=True)),
            st.binary(max_size=40).map(lambda data: frames.frame(frames.DATA, 0, 1, data)),
            st.binary(max_size=40).map(lambda data: frames.frame(0x20, 0xFF, 3, data)),
            st.just(PADDED),
        )
    ),
    st.data(),
)
def test_the_walk_finds_every_ping_in_whatever_pieces(sent: list, data: st.DataObject) -> None:
    whole = b"".join(sent)
    found: list[bytes] = []
    position = 0
    for size in [*sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5))), len(whole)]:
        some, position = walk(whole, position, size, 1000)
        found += some
    assert position == len(whole)
    assert [ping(number) for number in numbers(found)] == [
        frame for frame in sent if frame[3:5] == bytes((frames.PING, 0))
    ]


@pytest.mark.parametrize(
    "wrong", [frames.frame(frames.PING, 0, 0, b"7 bytes"), frames.frame(frames.PING, 0, 1, b"stream 1")]
)
async def test_nothing_after_an_error_is_acknowledged(wrong: bytes) -> None:
    hold = Hold(0, False)
    with connected() as client:
        client.send(ping(1) + wrong + ping(2))
        client.stand_in(hold)
        client.stand_in(hold)
        assert numbers(client.acknowledged()) == [1]
        client.loop_reads()
        assert [kind for kind, *_ in client.received()] == [frames.GOAWAY]


async def test_nothing_is_sent_into_a_frame_that_the_client_does_not_read() -> None:
    with connected() as client:
        client.send(ping(1))
        client.transport.unsent = 1
        client.stand_in()
        assert client.acknowledged() == []
        client.transport.unsent = 0
        client.stand_in()
        assert numbers(client.acknowledged()) == [1]


async def test_nothing_is_sent_while_the_connection_reads_or_after_its_end_or_before_its_begin() -> None:
    with connected() as client:
        client.send(ping(1))
        for name in ("corked", "ended"):
            setattr(client.connection, name, True)
            client.stand_in()
            setattr(client.connection, name, False)
        client.connection._configured = False
        client.stand_in()
        assert client.acknowledged() == []


async def test_what_the_socket_does_not_take_goes_before_everything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connected() as client:

        class Full:
            """Takes five bytes."""

            def __init__(self, sock: socket.socket) -> None:
                self.recv_into = sock.recv_into
                self._sock = sock

            def __enter__(self) -> "Full":
                return self

            def __exit__(self, *_: object) -> None: ...

            def dup(self) -> "Full":
                return self

            def fileno(self) -> int:
                return self._sock.fileno()

            def send(self, data: bytes, flags: int) -> int:
                return self._sock.send(data[:5], flags)

        full = Full(client._ours)
        monkeypatch.setattr(client.transport, "get_extra_info", lambda name: full)
        client.send(ping(1) + ping(2))
        client.stand_in()
        client.send(ping(3))
        client.stand_in()  # in the middle of a frame: nothing may be sent
        monkeypatch.undo()
        client.loop_reads()
        assert numbers(client.acknowledged()) == [1, 2, 3]


async def test_a_flood_is_acknowledged_in_bounded_steps_and_left_to_the_event_loop() -> None:
    hold = Hold(0, False)
    with connected(Limits(max_ping_strikes=None)) as client:
        client.send(b"".join(map(ping, range(200))))
        client.stand_in(hold)
        assert numbers(client.acknowledged()) == [*range(pings.MOST_ANSWERED)]
        client.stand_in(hold)
        client.stand_in()
        assert numbers(client.acknowledged()) == [*range(pings.MOST_ANSWERED, 3 * pings.MOST_ANSWERED)]
        client.loop_reads()
        assert numbers(client.acknowledged()) == [*range(3 * pings.MOST_ANSWERED, 200)]


async def test_pings_sent_during_a_hold_are_no_strikes() -> None:
    limits = Limits(max_ping_strikes=0, min_ping_interval=60)
    with connected(limits) as client:
        client.send(ping(0) + ping(1) + ping(2))
        client.stand_in()
        client.loop_reads()
        assert not client.connection.ended
        client.send(ping(3))
        client.loop_reads()
        assert not client.connection.ended
        client.send(ping(4))
        client.loop_reads()
        assert client.connection.ended


async def test_no_connection_is_kept_after_a_hold() -> None:
    with connected() as client:
        before = sys.getrefcount(client.connection)
        client.stand_in()
        client.responder.turned()
        after = sys.getrefcount(client.connection)
        assert after == before


async def test_a_client_that_leaves_disturbs_nobody() -> None:
    one, other = Client(), Client()
    responder = PingResponder([one.connection, other.connection])
    for client in (one, other):
        client.send(ping(1))
    one.sock.close()
    for _ in range(2):
        for _ in responder.respond(Hold(0, False)):
            pass
    assert numbers(other.acknowledged()) == [1]
    one.close()
    other.close()


@pytest.mark.parametrize("kind", [asyncio.SelectorEventLoop, None], ids=["asyncio", "uvloop"])
def test_the_transports_of_event_loops_give_what_the_responder_needs(kind: type | None) -> None:
    import uvloop

    loop = (kind or uvloop.new_event_loop)()

    async def check() -> None:
        made = loop.create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.set_result(transport)

        server = await loop.create_server(Protocol, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            transport = await made
            transport.write(b"written")
            assert transport.get_write_buffer_size() == 0  # the kernel has it before the event loop turns
            client.settimeout(10)
            assert client.recv(100) == b"written"
            with transport.get_extra_info("socket").dup() as sock:
                assert sock.fileno() != transport.get_extra_info("socket").fileno()
                assert not sock.getblocking()
            transport.close()
        server.close()
        await server.wait_closed()

    try:
        loop.run_until_complete(check())
    finally:
        loop.close()


async def test_a_ping_behind_the_rest_of_a_frame_of_the_largest_size_is_acknowledged() -> None:
    with connected() as client:
        size = client.connection.limits.max_frame
        frame = frames.frame(frames.DATA, 0, 1, bytes(size))
        client.send(frames.headers(1, HEAD, False) + frame[:100])
        client.loop_reads()
        for sock in (client.sock, client.transport.get_extra_info("socket")):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * size)
        client.send(frame[100:] + ping(7))
        client.stand_in()
        assert numbers(client.acknowledged()) == [7]
