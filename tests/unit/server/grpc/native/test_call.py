"""A call with one request and one response, from its head to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inferstream.errors import PayloadTooLarge
from inferstream.server.grpc.messages import PREFIX, add_prefix, compress
from inferstream.server.grpc.native.call import WORTH_COMPRESSING, UnaryCall
from inferstream.server.grpc.native.head import CallHead
from inferstream.server.grpc.rpc import Rpc, RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.http2 import frames
from inferstream.server.http2.connection import Http2Connection
from inferstream.server.http2.hpack import Decoder, encode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.request import Request
from inferstream.server.http2.settings import settings_frame
from inferstream.server.http2.stream import Stream

from ...http2.conversations import FakeTransport, read_frames

Serve = Callable[[Any, Any], Awaitable[bytes]]


class Called:
    """One call, and what its client has received."""

    max_receive = 1 << 20
    receive_setting = send_setting = "grpc_max_message_length"
    max_send: int | None = None
    compression: bytes | None = None

    def __init__(self, serve: Serve, *fields: tuple[bytes, bytes]) -> None:
        self._rpc = Rpc("/s/m", False, False, serve)
        self.call: UnaryCall | None = None
        self.transport = FakeTransport()
        self.connection = Http2Connection(
            self._accept, lambda _: None, Http2Limits(), lambda _: True, lambda _: None
        )
        self.connection.connection_made(self.transport)
        self.connection.data_received(frames.PREFACE + settings_frame({}))
        pseudo = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/s/m"), (b":authority", b"a")]
        head = [*pseudo, (b"te", b"trailers"), (b"content-type", b"application/grpc"), *fields]
        self.connection.data_received(frames.headers(1, encode(head), False))

    def _accept(self, stream: Stream, request: Request, end: bool) -> UnaryCall | None:
        self.call = UnaryCall(stream, CallHead(request), self._rpc, self)
        return self.call if self.call.begin() else None

    def send(self, data: bytes, end: bool = True) -> None:
        self.connection.data_received(frames.frame(frames.DATA, frames.END_STREAM if end else 0, 1, data))

    async def ended(self) -> tuple[dict[str, str], bytes]:
        """The headers and trailers together, and the body, when the call has ended."""
        decode = Decoder(max_list_size=65_536).decode
        headers: dict[str, str] = {}
        body = b""
        async with asyncio.timeout(10):
            while True:
                for kind, flags, _, payload in read_frames(self.transport.take()):
                    if kind == frames.HEADERS:
                        headers |= {name.decode(): value.decode() for name, value in decode(payload)}
                        if flags & frames.END_STREAM:
                            return headers, body
                    elif kind == frames.DATA:
                        body += payload
                await asyncio.sleep(0.001)


async def echo(message: Any, context: Any) -> bytes:
    return bytes(message)


@pytest.mark.parametrize("pieces", [1, 2, 7])
async def test_message_may_arrive_in_pieces(pieces: int) -> None:
    called, data = Called(echo), add_prefix(b"hello there")
    size = -(-len(data) // pieces)
    for start in range(0, len(data), size):
        called.send(data[start : start + size], end=start + size >= len(data))
    headers, body = await called.ended()
    assert (headers["grpc-status"], body) == ("0", data)


@pytest.mark.parametrize(
    ("data", "status", "said"),
    [
        (b"", StatusCode.UNIMPLEMENTED, "none was sent"),
        (add_prefix(b"a") * 2, StatusCode.UNIMPLEMENTED, "more were sent"),
        (add_prefix(b"abc")[:-1], StatusCode.INTERNAL, "The last message is incomplete."),
        (b"\x01" + add_prefix(b"abc")[1:], StatusCode.INVALID_ARGUMENT, "no grpc-encoding"),
        (PREFIX.pack(0, 1 << 21), StatusCode.RESOURCE_EXHAUSTED, "larger than"),
    ],
)
async def test_anything_but_one_message_ends_the_call(data: bytes, status: StatusCode, said: str) -> None:
    called = Called(echo)
    called.send(data)
    headers, body = await called.ended()
    assert (headers["grpc-status"], body) == (str(status.value), b"")
    assert said in headers["grpc-message"]


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ((b"grpc-encoding", b"br"), StatusCode.UNIMPLEMENTED),
        ((b"grpc-timeout", b"soon"), StatusCode.INTERNAL),
    ],
)
async def test_invalid_head_ends_the_call_immediately(field: tuple[bytes, bytes], status: StatusCode) -> None:
    headers, _ = await Called(echo, field).ended()
    assert headers["grpc-status"] == str(status.value)


async def test_compressed_request_is_read_and_large_response_is_compressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Called, "compression", b"gzip")
    large = b"x" * WORTH_COMPRESSING
    called = Called(echo, (b"grpc-encoding", b"gzip"), (b"grpc-accept-encoding", b"gzip"))
    called.send(compress(large, b"gzip"))
    headers, body = await called.ended()
    assert (headers["grpc-encoding"], body[0]) == ("gzip", 1)
    assert len(body) < len(large)
    plain = Called(echo)
    plain.send(add_prefix(large))
    headers, body = await plain.ended()
    assert ("grpc-encoding" in headers, body) == (False, add_prefix(large))


async def test_metadata_is_sent_with_the_response() -> None:
    async def serve(message: Any, context: Any) -> bytes:
        await context.send_initial_metadata((("x-a", "1"),))
        context.add_trailing_metadata((("x-b", "2"),))
        return b""

    called = Called(serve)
    called.send(add_prefix(b""))
    headers, _ = await called.ended()
    assert (headers["x-a"], headers["x-b"], headers["grpc-status"]) == ("1", "2", "0")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (RpcFailed(StatusCode.ABORTED, "why", (("retry-after", "3"),)), StatusCode.ABORTED, "why"),
        (PayloadTooLarge("too much"), StatusCode.RESOURCE_EXHAUSTED, "too much"),
        (ValueError("secret"), StatusCode.INTERNAL, "its log says why"),
    ],
)
async def test_failure_sets_the_call_status(error: Exception, status: StatusCode, said: str) -> None:
    async def fail(message: Any, context: Any) -> bytes:
        raise error

    called = Called(fail)
    called.send(add_prefix(b""))
    headers, body = await called.ended()
    assert (headers["grpc-status"], body) == (str(status.value), b"")
    assert said in headers["grpc-message"]
    assert ("retry-after" in headers) is isinstance(error, RpcFailed)


async def test_oversized_response_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Called, "max_send", 3)
    called = Called(echo)
    called.send(add_prefix(b"abcd"))
    headers, _ = await called.ended()
    assert (
        headers["grpc-status"],
        "more than the 3 allowed (setting grpc_max_message_length)" in headers["grpc-message"],
    ) == (
        "8",
        True,
    )


async def test_deadline_or_disconnect_cancels_the_rpc() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(message: Any, context: Any) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    late = Called(hang, (b"grpc-timeout", b"1m"))
    late.send(add_prefix(b""))
    headers, _ = await late.ended()
    assert headers["grpc-status"] == str(StatusCode.DEADLINE_EXCEEDED.value)
    begun.clear()
    ended.clear()
    left = Called(hang)
    left.send(add_prefix(b""))
    async with asyncio.timeout(10):
        await begun.wait()
        left.connection.data_received(frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"))
        await ended.wait()
    assert b"grpc-status" not in left.transport.take()
