"""The gRPC client for engines, with servers of grpcio, and with peers that break the rules."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from hpack import Encoder

from inferstream.plugins.llm.engine.rpc import channel as channel_module
from inferstream.plugins.llm.engine.rpc import connection as frames
from inferstream.plugins.llm.engine.rpc.call import RpcCall
from inferstream.plugins.llm.engine.rpc.channel import RpcChannel, RpcMethod
from inferstream.plugins.llm.engine.rpc.connection import PREFACE, build_frame
from inferstream.plugins.llm.engine.rpc.status import RpcError, RpcStatus

Handler = Callable[[bytes, Any], AsyncIterator[bytes]]
ECHO = RpcMethod("/test.Service/Echo", bytes, bytes)
LARGE = 1_000_000


@asynccontextmanager
async def serving(
    handler: Handler, address: str = "127.0.0.1:0", **options: Any
) -> AsyncIterator[tuple[RpcChannel, grpc.aio.Server]]:
    given = {"grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1, **options}
    server = grpc.aio.server(options=[*given.items()])
    rpcs = {"Echo": grpc.unary_stream_rpc_method_handler(handler)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", rpcs),))
    port = server.add_insecure_port(address)
    await server.start()
    channel = RpcChannel(address if address.startswith("unix:") else f"localhost:{port}")
    try:
        yield channel, server
    finally:
        channel.close()
        await server.stop(None)


async def read_all(call: RpcCall) -> list[bytes]:
    messages = []
    while (message := await call.read()) is not None:
        messages.append(message)
    return messages


async def ask(channel: RpcChannel, request: bytes = b"", timeout: float | None = 30) -> list[bytes]:
    async with asyncio.timeout(60):
        return await read_all(await channel.start(ECHO, request, timeout))


async def fail(channel: RpcChannel, timeout: float | None = 30) -> RpcError:
    with pytest.raises(RpcError) as failed:
        await ask(channel, timeout=timeout)
    return failed.value


async def echo(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for _ in range(3):
        yield request


@pytest.mark.parametrize("size", [0, 1, 65_530, 65_531, LARGE])
@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_messages_of_any_size_arrive(size: int, kind: str, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s" if kind == "unix" else "127.0.0.1:0"
    async with serving(echo, address) as (channel, _):
        assert await ask(channel, bytes(size)) == [bytes(size)] * 3


async def test_large_requests_at_once_share_the_window() -> None:
    async with serving(echo) as (channel, _):
        requests = [bytes([each]) * LARGE for each in range(8)]
        results = await asyncio.gather(*(ask(channel, each) for each in requests))
        assert results == [[each] * 3 for each in requests]


async def test_many_calls_share_one_connection() -> None:
    peers = set()

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        peers.add(context.peer())
        for each in range(10):
            await asyncio.sleep(0)
            yield request + bytes([each])

    async with serving(answer) as (channel, _):
        results = await asyncio.gather(*(ask(channel, b"%d" % each) for each in range(100)))
        assert results == [[b"%d" % each + bytes([at]) for at in range(10)] for each in range(100)]
    assert len(peers) == 1


async def test_slow_reader_blocks_its_call_alone() -> None:
    sent = 0

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        nonlocal sent
        while request == b"slow":
            yield bytes(1000)
            sent += 1
        yield b"quick"

    async with serving(answer) as (channel, _):
        slow = await channel.start(ECHO, b"slow")
        await slow.read()
        before = -1
        while before != sent:
            before = sent
            assert await ask(channel, b"other") == [b"quick"]
            await asyncio.sleep(0.1)
        assert sum(map(len, slow._messages)) < 70_000
        for _ in range(200):
            assert len(await slow.read()) == 1000
        slow.cancel()


async def test_cancellation_reaches_the_server() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        started.set()
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            cancelled.set()

    async with serving(answer) as (channel, _):
        call = await channel.start(ECHO, b"")
        await started.wait()
        call.cancel()
        call.cancel()
        async with asyncio.timeout(10):
            await cancelled.wait()
        with pytest.raises(RpcError, match="CANCELLED"):
            await call.read()


async def test_deadline_ends_the_call_at_both_ends() -> None:
    remaining: list[float] = []

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        remaining.append(context.time_remaining())
        yield b"first"
        await asyncio.Event().wait()

    async with serving(answer) as (channel, _):
        call = await channel.start(ECHO, b"", 0.5)
        assert await call.read() == b"first"
        with pytest.raises(RpcError) as failed:
            await call.read()
    assert failed.value.code is RpcStatus.DEADLINE_EXCEEDED
    assert 0 < remaining[0] <= 0.5


@pytest.mark.parametrize("code", [each for each in grpc.StatusCode if each is not grpc.StatusCode.OK])
@pytest.mark.parametrize("messages", [0, 2])
async def test_statuses_arrive_after_messages(code: grpc.StatusCode, messages: int) -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for _ in range(messages):
            yield b"message"
        await context.abort(code, "über 100 %\nand more")

    async with serving(answer) as (channel, _):
        call = await channel.start(ECHO, b"")
        for _ in range(messages):
            assert await call.read() == b"message"
        for _ in range(2):
            with pytest.raises(RpcError) as failed:
                await call.read()
            assert (failed.value.code.name, failed.value.reason) == (code.name, "über 100 %\nand more")


async def test_unknown_method_is_unimplemented() -> None:
    async with serving(echo) as (channel, _):
        call = await channel.start(RpcMethod("/test.Service/Other", bytes, bytes), b"")
        with pytest.raises(RpcError, match="UNIMPLEMENTED"):
            await call.read()


async def test_message_of_another_type_fails() -> None:
    def decode(data: bytes) -> Any:
        raise ValueError("private")

    async with serving(echo) as (channel, _):
        call = await channel.start(RpcMethod(ECHO.path, bytes, decode), b"")
        with pytest.raises(RpcError, match="INTERNAL: the peer sent a message of another type"):
            await call.read()


async def test_long_headers_arrive_in_pieces() -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata([("long", "x" * 20_000)])
        yield b"message"

    async with serving(answer) as (channel, _):
        assert await ask(channel) == [b"message"]


async def test_calls_beyond_the_limit_of_the_peer_are_refused() -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"message"
        await asyncio.Event().wait()

    async with serving(answer, **{"grpc.max_concurrent_streams": 2}) as (channel, _):
        calls = [await channel.start(ECHO, b"") for _ in range(2)]
        for call in calls:
            await call.read()
        assert (await fail(channel)).code is RpcStatus.RESOURCE_EXHAUSTED
        calls[0].cancel()
        assert await (await channel.start(ECHO, b"")).read() == b"message"


async def test_calls_in_progress_finish_while_the_server_stops() -> None:
    more = asyncio.Event()

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        if request:
            await more.wait()
            yield b"second"

    async with serving(answer) as (channel, server):
        call = await channel.start(ECHO, b"wait")
        assert await call.read() == b"first"
        stopping = asyncio.create_task(server.stop(30))
        with pytest.raises(RpcError, match=r"UNAVAILABLE|CANCELLED"):
            while True:
                await ask(channel)
        more.set()
        assert await read_all(call) == [b"second"]
        await stopping


async def test_channel_connects_again(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    channel = RpcChannel(address)
    assert (await fail(channel)).code is RpcStatus.UNAVAILABLE
    for _ in range(2):
        async with serving(echo, address):
            assert await ask(channel, b"x") == [b"x"] * 3
        assert (await fail(channel)).code is RpcStatus.UNAVAILABLE


async def test_cancelled_caller_does_not_disturb_another_that_connects() -> None:
    async with serving(echo) as (channel, _):
        first = asyncio.create_task(channel.start(ECHO, b"a"))
        second = asyncio.create_task(channel.start(ECHO, b"b"))
        await asyncio.sleep(0)
        first.cancel()
        assert await read_all(await second) == [b"b"] * 3


class Peer:
    """The server's end of a connection, for tests that write frames themselves."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.encoder = reader, writer, Encoder()

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    def headers(self, fields: dict[str, str], flags: int = 0, stream: int = 1) -> bytes:
        block = self.encoder.encode([*fields.items()])
        return build_frame(frames.HEADERS, flags | frames.END_HEADERS, stream, block)

    def begin(self) -> bytes:
        return self.headers({":status": "200", "content-type": "application/grpc"})

    def finish(self, status: str = "0") -> bytes:
        return self.headers({"grpc-status": status}, frames.END_STREAM)

    async def receive(self) -> tuple[int, int, int, bytes]:
        head = await self.reader.readexactly(frames.HEAD)
        payload = await self.reader.readexactly(int.from_bytes(head[:3]))
        return head[3], head[4], int.from_bytes(head[5:]), payload

    async def receive_kind(self, kind: int) -> tuple[int, int, bytes]:
        while (frame := await self.receive())[0] != kind:
            pass
        return frame[1:]


Behaviour = Callable[[Peer], Awaitable[None] | None]


@asynccontextmanager
async def faking(
    behave: Behaviour, greeting: bytes = build_frame(frames.SETTINGS, 0, 0)
) -> AsyncIterator[RpcChannel]:
    writers = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        peer = Peer(reader, writer)
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        peer.send(greeting)
        await peer.receive_kind(frames.HEADERS)
        if (waiting := behave(peer)) is not None:
            await waiting

    server = await asyncio.start_server(accept, "127.0.0.1")
    channel = RpcChannel(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield channel
    finally:
        channel.close()
        for writer in writers:
            writer.close()
        server.close()


def message(data: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(data).to_bytes(4) + data


def data_frame(payload: bytes, flags: int = 0, stream: int = 1) -> bytes:
    return build_frame(frames.DATA, flags, stream, payload)


@pytest.mark.parametrize("size", [1, 3, 5, 7, 100])
async def test_frames_and_messages_may_be_cut_anywhere(size: int) -> None:
    async def behave(peer: Peer) -> None:
        padded = data_frame(b"\3" + message(b"padded") + b"\0\0\0", frames.PADDED)
        fields = peer.encoder.encode([(":status", "200"), ("content-type", "application/grpc+proto")])
        begin = build_frame(
            frames.HEADERS, frames.PADDED | frames.WITH_PRIORITY, 1, b"\1" + bytes(5) + fields[:3] + b"\0"
        )
        begin += build_frame(frames.CONTINUATION, frames.END_HEADERS, 1, fields[3:])
        whole = message(b"one") + message(b"") + message(b"three")
        parts = [data_frame(whole[at : at + 4]) for at in range(0, len(whole), 4)]
        other = build_frame(frames.PRIORITY, 0, 1, bytes(5)) + build_frame(0x20, 0, 1, b"unknown")
        sent = b"".join([begin, other, *parts, padded, data_frame(b""), peer.finish()])
        for at in range(0, len(sent), size):
            peer.send(sent[at : at + size])
            await peer.writer.drain()
            await asyncio.sleep(0)

    async with faking(behave) as channel:
        assert await ask(channel) == [b"one", b"", b"three", b"padded"]


async def test_ping_is_acknowledged() -> None:
    async def behave(peer: Peer) -> None:
        peer.send(build_frame(frames.PING, 0, 0, b"12345678"))
        flags, stream, payload = await peer.receive_kind(frames.PING)
        assert (flags, stream) == (frames.ACK, 0)
        peer.send(peer.begin(), data_frame(message(payload)), peer.finish())

    async with faking(behave) as channel:
        assert await ask(channel) == [b"12345678"]


async def test_smaller_window_of_the_peer_delays_the_request() -> None:
    settings = struct.pack(">HI", frames.SETTING_WINDOW, 10)

    async def behave(peer: Peer) -> None:
        received = []
        for size in (10, 4, 91):
            flags, _, payload = await peer.receive_kind(frames.DATA)
            received.append((len(payload), flags))
            if size == 10:
                peer.send(build_frame(frames.WINDOW_UPDATE, 0, 1, (4).to_bytes(4)))
            elif size == 4:
                peer.send(build_frame(frames.SETTINGS, 0, 0, struct.pack(">HI", frames.SETTING_WINDOW, 1000)))
        peer.send(peer.begin(), data_frame(message(repr(received).encode())), peer.finish())

    async with faking(behave, build_frame(frames.SETTINGS, 0, 0, settings)) as channel:
        assert await ask(channel, bytes(100)) == [b"[(10, 0), (4, 0), (91, 1)]"]


async def test_frames_of_a_cancelled_call_are_ignored() -> None:
    async def behave(peer: Peer) -> None:
        peer.send(peer.begin(), data_frame(message(b"one")))
        await peer.receive_kind(frames.RST_STREAM)
        late = build_frame(frames.WINDOW_UPDATE, 0, 1, (1).to_bytes(4)) + data_frame(message(b"late"))
        peer.send(late, peer.headers({"grpc-status": "0", "new": "x"}, frames.END_STREAM))
        await peer.receive_kind(frames.HEADERS)
        fields = {":status": "200", "content-type": "application/grpc", "new": "x"}
        peer.send(peer.headers(fields, stream=3), data_frame(message(b"two"), stream=3))
        peer.send(peer.headers({"grpc-status": "0"}, frames.END_STREAM, 3))

    async with faking(behave) as channel:
        call = await channel.start(ECHO, b"")
        assert await call.read() == b"one"
        call.cancel()
        assert await ask(channel) == [b"two"]


def grpc_failure(code: str) -> Behaviour:
    return lambda peer: peer.send(peer.begin(), peer.finish(code))


def http_failure(status: str) -> Behaviour:
    return lambda peer: peer.send(peer.headers({":status": status, "content-type": "text/html"}))


def reset(code: int) -> Behaviour:
    return lambda peer: peer.send(peer.begin(), build_frame(frames.RST_STREAM, 0, 1, code.to_bytes(4)))


def sent(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 1) -> Behaviour:
    return lambda peer: peer.send(peer.begin(), build_frame(kind, flags, stream, payload))


def headers(fields: dict[str, str], flags: int = 0) -> Behaviour:
    return lambda peer: peer.send(peer.begin(), peer.headers(fields, flags))


@pytest.mark.parametrize(
    ("behave", "code", "reason"),
    [
        (grpc_failure("17"), RpcStatus.UNKNOWN, ""),
        (grpc_failure("-1"), RpcStatus.UNKNOWN, ""),
        (grpc_failure("9" * 5000), RpcStatus.UNKNOWN, ""),
        (grpc_failure(""), RpcStatus.UNKNOWN, "no grpc-status"),
        (http_failure("404"), RpcStatus.UNIMPLEMENTED, "HTTP status 404"),
        (http_failure("503"), RpcStatus.UNAVAILABLE, "HTTP status 503"),
        (http_failure("418"), RpcStatus.UNKNOWN, "HTTP status 418"),
        (http_failure("200"), RpcStatus.UNKNOWN, "does not speak gRPC"),
        (reset(7), RpcStatus.UNAVAILABLE, "code 7"),
        (reset(8), RpcStatus.CANCELLED, "code 8"),
        (reset(11), RpcStatus.RESOURCE_EXHAUSTED, "code 11"),
        (reset(0), RpcStatus.INTERNAL, "code 0"),
        (headers({"x": "y"}), RpcStatus.INTERNAL, "headers twice"),
        (sent(frames.DATA, message(b"x"), frames.END_STREAM), RpcStatus.INTERNAL, "no trailers"),
        (sent(frames.DATA, message(b"x", 1)), RpcStatus.INTERNAL, "compressed"),
        (sent(frames.DATA, b"\0\xff\xff\xff\xff"), RpcStatus.INTERNAL, "longer than"),
        (sent(frames.DATA, b"\5abcd", frames.PADDED), RpcStatus.UNAVAILABLE, "padding"),
        (sent(frames.DATA, b"", frames.PADDED), RpcStatus.UNAVAILABLE, "HTTP/2"),
        (sent(frames.SETTINGS, b"abc", stream=0), RpcStatus.UNAVAILABLE, "HTTP/2"),
        (sent(frames.PUSH_PROMISE), RpcStatus.UNAVAILABLE, "PUSH_PROMISE"),
        (sent(frames.CONTINUATION), RpcStatus.UNAVAILABLE, "CONTINUATION"),
        (sent(frames.HEADERS, b"\xff" * 10, frames.END_HEADERS), RpcStatus.UNAVAILABLE, "HTTP/2"),
        (sent(frames.GOAWAY, bytes(8), stream=0), RpcStatus.UNAVAILABLE, "going away"),
        (lambda peer: peer.send(b"\xff" * 20), RpcStatus.UNAVAILABLE, "too long"),
        (lambda peer: peer.writer.close(), RpcStatus.UNAVAILABLE, "lost"),
    ],
)
async def test_failures_of_the_peer(behave: Behaviour, code: RpcStatus, reason: str) -> None:
    async with faking(behave) as channel:
        failed = await fail(channel)
        assert (failed.code, reason in failed.reason) == (code, True), failed


async def test_incomplete_message_is_an_error() -> None:
    def behave(peer: Peer) -> None:
        peer.send(peer.begin(), data_frame(message(b"whole") + message(b"partial")[:-1]), peer.finish())

    async with faking(behave) as channel:
        call = await channel.start(ECHO, b"")
        assert await call.read() == b"whole"
        with pytest.raises(RpcError, match="incomplete message"):
            await call.read()


async def test_headers_without_end_are_bounded() -> None:
    async def behave(peer: Peer) -> None:
        peer.send(build_frame(frames.HEADERS, 0, 1, bytes(16_000)))
        for _ in range(5):
            peer.send(build_frame(frames.CONTINUATION, 0, 1, bytes(16_000)))
            await peer.writer.drain()

    async with faking(behave) as channel:
        assert "headers are too long" in (await fail(channel)).reason


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 9, b"\x15\x03\x01\0\x02\x02\x0a" * 9]
)
async def test_peer_that_does_not_speak_http2_is_named(greeting: bytes) -> None:
    async with faking(lambda peer: None, greeting) as channel:
        failed = await fail(channel)
    assert failed.code is RpcStatus.UNAVAILABLE
    assert failed.reason.startswith("the peer does not speak HTTP/2: ")


async def test_peer_that_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        failed = await fail(RpcChannel(f"127.0.0.1:{listener.getsockname()[1]}"))
    assert (failed.code, "in time" in failed.reason) == (RpcStatus.UNAVAILABLE, True)


async def test_request_that_is_too_long_is_not_sent() -> None:
    async with serving(echo) as (channel, _):
        with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
            await channel.start(ECHO, bytes((1 << 26) + 1))
