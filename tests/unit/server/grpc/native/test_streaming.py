"""Streams of the native engine, without sockets: which messages leave together, and when."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from inferstream.concurrency import outgoing
from inferstream.concurrency.scope import ClientLeft
from inferstream.server.grpc.messages import PREFIX
from inferstream.server.grpc.native import streaming
from inferstream.server.grpc.native.head import CallHead
from inferstream.server.grpc.native.streaming import StreamingCall
from inferstream.server.grpc.rpc import Rpc, RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.http2 import frames, sending
from inferstream.server.http2.connection import Http2Connection
from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.hpack import encode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.request import Request
from inferstream.server.http2.settings import DEFAULT_WINDOW, INITIAL_WINDOW_SIZE, settings_frame
from inferstream.server.http2.stream import Stream

from ...http2.conversations import FakeTransport, read_frames

Behaviour = Callable[[StreamingCall], Awaitable[None]]

REQUEST = encode(
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/s/m"),
        (b":authority", b"a"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]
)


class Wire(FakeTransport):
    """Keeps each write on its own, in words: `head`, the messages that it completes, and `end`."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self._incomplete = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        words = []
        for kind, flags, _, payload in read_frames(bytes(data)):
            if kind == frames.HEADERS:
                words.append("end" if flags & frames.END_STREAM else "head")
            elif kind == frames.DATA:
                words += self._messages(payload)
        if words:
            self.writes.append(" ".join(words))

    def _messages(self, payload: bytes) -> list[str]:
        found = []
        payload = self._incomplete + payload
        while len(payload) >= PREFIX.size:
            end = PREFIX.size + PREFIX.unpack_from(payload)[1]
            if end > len(payload):
                break
            found.append(payload[PREFIX.size : end].decode() or "-")
            payload = payload[end:]
        self._incomplete = payload
        return found


class Served:
    """A connection whose calls one behaviour serves."""

    max_receive = 1 << 20
    receive_setting = send_setting = "grpc_max_message_length"
    max_send = None
    compression = None

    def __init__(self, behaviour: Behaviour, window: int = DEFAULT_WINDOW) -> None:
        self._behaviour = behaviour
        self._wrong: AssertionError | None = None
        self.wire = Wire()
        self.done = asyncio.Event()
        self.connection = Http2Connection(
            self._accept, lambda _: None, Http2Limits(), lambda _: True, lambda _: None
        )
        self.connection.connection_made(self.wire)
        self.connection.data_received(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + settings_frame({INITIAL_WINDOW_SIZE: window})
            + frames.headers(1, REQUEST, True)
        )

    def _accept(self, stream: Stream, request: Request, end: bool) -> StreamingCall:
        call = StreamingCall(stream, CallHead(request), Rpc("/s/m", True, True, self._serve), self)
        assert call.begin()
        call.start()
        call.receive_data(b"", end)
        return call

    async def _serve(self, _: bytes | None, call: StreamingCall) -> None:  # type: ignore[override]
        try:
            await self._behaviour(call)
        except AssertionError as wrong:  # the call ends with a status, as for every other error
            self._wrong = wrong
            raise
        finally:
            self.done.set()

    async def ended(self) -> list[str]:
        """The writes of a call, when it has ended."""
        async with asyncio.timeout(10):
            await self.done.wait()
        await asyncio.sleep(0)
        if self._wrong is not None:
            raise self._wrong
        return self.wire.writes


class Clock:
    """What the call takes for the time: it stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(outgoing, "perf_counter", found)
    monkeypatch.setattr(sending, "monotonic", found)
    return found


async def test_first_message_is_sent_alone_and_immediate_ones_together(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        for name in "abcd":
            await call.write(name.encode())

    assert await Served(behaviour).ended() == ["head a", "b c d end"]


async def test_pending_messages_are_sent_one_loop_iteration_after_the_model_waits(clock: Clock) -> None:
    before: list[list[str]] = []

    async def behaviour(call: StreamingCall) -> None:
        for name in "abcd":
            await call.write(name.encode())
            if name == "c":
                await asyncio.sleep(0)
                before.append([*served.wire.writes])

    served = Served(behaviour)
    assert await served.ended() == ["head a", "b c", "d end"]
    assert before == [["head a", "b c"]]


async def test_slow_message_is_sent_immediately(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        for name in "abcd":
            if name == "c":
                clock.now += 2 * outgoing.WAITED_SECONDS
            await call.write(name.encode())
        assert served.wire.writes == ["head a", "b c"]

    served = Served(behaviour)
    assert await served.ended() == ["head a", "b c", "d end"]


async def test_nonwaiting_stream_lets_others_run(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        asyncio.get_running_loop().call_soon(others.append, "ran")
        for _ in range(streaming.WITHOUT_WAIT):
            assert not others
            await call.write(b"x")
        assert others == ["ran"]

    others: list[str] = []
    writes = await Served(behaviour).ended()
    assert writes == ["head x", "x " * (streaming.WITHOUT_WAIT - 2) + "x", "end"]


async def test_empty_and_large_messages_keep_their_order(clock: Clock) -> None:
    large = "l" * (outgoing.TOGETHER_BYTES + 1)

    async def behaviour(call: StreamingCall) -> None:
        for text in ("a", "", "b", large, "c"):
            await call.write(text.encode())

    found = " ".join(await Served(behaviour, 1 << 20).ended())
    assert found.replace(large, "large") == "head a - b large c end"


async def test_messages_are_combined_up_to_a_size(clock: Clock) -> None:
    third = "x" * (outgoing.TOGETHER_BYTES // 3)

    async def behaviour(call: StreamingCall) -> None:
        await call.write(b"a")
        for _ in range(5):
            await call.write(third.encode())

    found = [write.replace(third, "x") for write in await Served(behaviour, 1 << 20).ended()]
    assert found == ["head a", "x x x x", "x end"]


async def test_oversized_message_ends_the_stream(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Served, "max_send", 3)
    sizes: list[int] = []

    async def behaviour(call: StreamingCall) -> None:
        for size in (3, 4):
            await call.write(b"x" * size)
            sizes.append(size)

    assert await Served(behaviour).ended() == ["head xxx", "end"]
    assert sizes == [3]


async def test_failure_follows_previous_messages(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        for name in "abc":
            await call.write(name.encode())
        raise RpcFailed(StatusCode.INTERNAL, "broken")

    assert await Served(behaviour).ended() == ["head a", "b c end"]


async def test_metadata_is_sent_before_the_first_message(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        await call.send_initial_metadata((("k", "v"),))
        await asyncio.sleep(0)
        assert served.wire.writes == ["head"]
        await call.write(b"a")

    served = Served(behaviour)
    assert await served.ended() == ["head", "a", "end"]


async def test_metadata_is_sent_with_a_ready_message(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        await call.send_initial_metadata((("k", "v"),))
        await call.write(b"a")

    assert await Served(behaviour).ended() == ["head a", "end"]


async def test_messages_wait_for_a_client_that_does_not_read(clock: Clock) -> None:
    sent: list[int] = []

    async def behaviour(call: StreamingCall) -> None:
        for number in range(100):
            await call.write(b"%05d" % number)
            sent.append(number)

    served = Served(behaviour, window=40)
    for _ in range(20):
        await asyncio.sleep(0)
    assert served.wire.writes == ["head 00000", "00001 00002 00003"]
    assert len(sent) < 2 * streaming.WITHOUT_WAIT
    served.connection.data_received(frames.window_update(1, 10_000))
    words = " ".join(await served.ended()).split()
    assert words == ["head", *(f"{number:05d}" for number in range(100)), "end"]


async def test_metadata_cannot_follow_the_end(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        call.fail(StatusCode.DEADLINE_EXCEEDED, "late")
        with pytest.raises(ClientLeft):
            await call.send_initial_metadata(())

    assert await Served(behaviour).ended() == ["end"]


async def test_message_waits_for_one_loop_iteration_next_to_other_streams(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        for name in "ab":
            await call.write(name.encode())
        await asyncio.sleep(0)
        assert served.wire.writes == ["head a head a b b"]  # of both streams

    served = Served(behaviour)
    served.connection.data_received(frames.headers(3, REQUEST, False))
    await served.ended()


async def test_messages_are_sent_before_the_connection_closes(clock: Clock) -> None:
    async def behaviour(call: StreamingCall) -> None:
        for name in "abc":
            await call.write(name.encode())
        served.connection.end(ErrorCode.NO_ERROR, "")

    served = Served(behaviour)
    assert await served.ended() == ["head a", "b c"]
