"""A client of gRPC that costs less than a cheap server: HTTP/2 frames as bytes, and no object for a call.

A call of grpc.aio's client takes more of a core than one of a good server. The limits of this one: requests of one
frame, and headers of responses are not read, so who uses it looks at the messages.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from random import Random
from struct import Struct

from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from inferstream.protos.dataplane_pb2 import ModelInferRequest

HEAD = Struct(">HBBBL")
"""Length of the payload in two parts, type, flags and stream of a frame."""

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WINDOW = 2**31 - 1
SERVICE = "/inference.GRPCInferenceService/"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return HEAD.pack(len(payload) >> 8, len(payload) & 255, kind, flags, stream) + payload


OPENING = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(SETTINGS, 0, 0, Struct(">HLHL").pack(2, 0, 4, WINDOW))  # no push, and streams without a limit
    + frame(WINDOW_UPDATE, 0, 0, (WINDOW - 65_535).to_bytes(4))
)


def request_headers(path: str) -> tuple[bytes, bytes]:
    """The header block of the first request of a connection, and that of all others, which the first has indexed."""
    fields = {
        b":path": path.encode(),
        b":authority": b"127.0.0.1",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
        b"user-agent": b"benchmark",
        b"grpc-accept-encoding": b"identity, deflate, gzip",
    }
    post, http = b"\x83", b"\x86"
    first = b"".join(b"\x40" + _text(name) + _text(value) for name, value in fields.items())
    return post + http + first, post + http + bytes(0x80 | 61 + len(fields) - i for i in range(len(fields)))


def _text(value: bytes) -> bytes:
    assert len(value) < 127
    return bytes([len(value)]) + value


NAMES = 2048
"""Headers of each kind; together they make a block that does not come again."""


@cache
def new_headers() -> tuple[list[bytes], ...]:
    """A deadline, request ids and trace contexts in Huffman's code, as most clients send them."""
    random, encode = Random(0), HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode

    def fields(name: bytes, value: Callable[[], str]) -> list[bytes]:
        start = b"\x00" + _text(name)
        texts = [encode(value().encode()) for _ in range(NAMES)]
        return [start + bytes([0x80 | len(text)]) + text for text in texts]

    def digits(bits: int) -> str:
        return f"{random.getrandbits(bits):0{bits // 4}x}"

    return (
        fields(b"grpc-timeout", lambda: f"{random.randrange(10_000, 20_000)}m"),
        fields(b"x-request-id", lambda: digits(128)),
        fields(b"traceparent", lambda: f"00-{digits(128)}-{digits(64)}-01"),
    )


@cache
def changing_headers() -> Iterator[bytes]:
    """The headers of one call after another, of all connections."""
    return _changing()


def _changing() -> Iterator[bytes]:
    timeouts, ids, traces = new_headers()
    for i in count():
        yield timeouts[i % NAMES] + ids[(i + i // NAMES) % NAMES] + traces[(i * 7) % NAMES]


class Connection(asyncio.Protocol):
    """A connection that makes calls of one method with one request. What `received` and `ended` do is its kind."""

    transport: asyncio.Transport

    def __init__(self, method: str, request: ModelInferRequest, changing: bool = False) -> None:
        self._first, self._other = request_headers(SERVICE + method)
        body = request.SerializeToString()
        self._message = b"\x00" + len(body).to_bytes(4) + body
        self._changing = changing_headers() if changing else None
        self._streams = count(1, 2)
        self._rest = b""
        self._ahead: dict[int, int] = {}
        """Bytes that are still to come of a message of these streams."""
        self._cut: dict[int, bytes] = {}
        """The beginning of the prefix of a message, of which the rest is to come."""
        self._read = 0
        self._out: list[bytes] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.write(OPENING)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the connection was lost: {error}")

    def call(self) -> int:
        """Begin a call, and return its stream. Its bytes leave at `flush`."""
        stream = next(self._streams)
        block = self._other if stream > 1 else self._first
        if self._changing is not None:
            block += next(self._changing)
        self._out += (
            frame(HEADERS, END_HEADERS, stream, block),
            frame(DATA, END_STREAM, stream, self._message),
        )
        return stream

    def flush(self) -> None:
        if self._out:
            self.transport.write(b"".join(self._out))
            self._out.clear()

    def received(self, stream: int, messages: int, data: bytes) -> None:
        raise NotImplementedError

    def ended(self, stream: int) -> None:
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at, end = 0, len(data)
        while end - at >= 9:
            high, low, kind, flags, stream = HEAD.unpack_from(data, at)
            after = at + 9 + (high << 8 | low)
            if after > end:
                break
            if kind == DATA:
                self._data(stream, data[at + 9 : after])
            elif kind not in (HEADERS, WINDOW_UPDATE):
                self._control(kind, flags, data[at + 9 : after])
            if flags & END_STREAM and kind in (DATA, HEADERS):
                self.ended(stream)
            at = after
        self._rest = data[at:]
        self.flush()

    def _data(self, stream: int, payload: bytes) -> None:
        """Count the messages that begin in this frame."""
        self._read += len(payload)
        if self._read > WINDOW // 2:
            self._out.append(frame(WINDOW_UPDATE, 0, 0, self._read.to_bytes(4)))
            self._read = 0
        if self._cut:
            payload = self._cut.pop(stream, b"") + payload
        ahead, messages, size = self._ahead.pop(stream, 0), 0, len(payload)
        while ahead + 5 <= size:
            messages += 1
            ahead += 5 + int.from_bytes(payload[ahead + 1 : ahead + 5])
        if ahead > size:
            self._ahead[stream] = ahead - size
        elif ahead < size:
            self._cut[stream] = payload[ahead:]
        self.received(stream, messages, payload)

    def _control(self, kind: int, flags: int, payload: bytes) -> None:
        if kind in (RST_STREAM, GOAWAY):
            self._fail(f"frame {kind} with {payload!r}")
        elif kind in (PING, SETTINGS) and not flags & ACK:
            self._out.append(frame(kind, ACK, 0, payload if kind == PING else b""))

    def _fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(reason))

    def close(self) -> None:
        self.done.cancel()
        self.transport.abort()
