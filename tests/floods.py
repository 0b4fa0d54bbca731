"""What hostile clients of HTTP/2 send: plain sockets and frames, so that everything illegal can be said."""

import gzip
import os
import select
import socket
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import grpc

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4

PROTOCOL_ERROR, SETTINGS_TIMEOUT, FRAME_SIZE_ERROR, CANCEL, COMPRESSION_ERROR, CALM = 1, 4, 6, 8, 9, 11

INFER = b"/inference.GRPCInferenceService/ModelInfer"
STREAM = b"/inference.GRPCInferenceService/ModelStreamInfer"


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def long(value: int) -> bytes:
    return struct.pack(">I", value)


def setting(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">HI", *pair) for pair in pairs)


def text(value: bytes) -> bytes:
    """A string of a header block."""
    if len(value) < 127:
        return bytes((len(value),)) + value
    rest = len(value) - 127
    written = [127]
    while rest > 127:
        written.append(rest & 127 | 128)
        rest >>= 7
    return bytes((*written, rest)) + value


def literal(name: bytes, value: bytes, kind: int = 0) -> bytes:
    return bytes((kind,)) + text(name) + text(value)


def block(path: bytes = INFER, *more: tuple[bytes, bytes]) -> bytes:
    """The header block of a call."""
    head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x")]
    rest = [(b"te", b"trailers"), (b"content-type", b"application/grpc")]
    return b"".join(literal(*each) for each in (*head, *rest, *more))


def message(payload: bytes, compressed: int = 0, size: int | None = None) -> bytes:
    return struct.pack(">BI", compressed, len(payload) if size is None else size) + payload


def asking(model: str, **parameters: int) -> bytes:
    """The message that asks a model of texts."""
    request = ModelInferRequest(model_name=model, id="flood")
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"hi")
    for name, value in parameters.items():
        request.parameters[name].int64_param = value
    return message(request.SerializeToString())


@dataclass
class Seen:
    """What a peer got from the server."""

    frames: Counter[int] = field(default_factory=Counter)
    goaway: tuple[int, str] | None = None
    resets: Counter[int] = field(default_factory=Counter)
    closed: bool = False
    headers: bytes = b""
    """The header blocks, in which plain texts are readable."""


class Peer:
    """One hostile connection."""

    def __init__(
        self, port: int, settings: bytes = b"", *, start: bool = True, read: int | None = None
    ) -> None:
        self.socket = socket.socket()
        if read is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, read)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.seen = Seen()
        self.sent = 0
        self._unread = b""
        if start:
            self.pour(iter([PREFACE + frame(SETTINGS, 0, 0, settings) + frame(SETTINGS, 1)]), 5)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def pour(self, pieces: Iterator[bytes], seconds: float, *, reading: bool = True) -> Seen:
        """Send pieces as fast as the server takes them, until it closes, they end, or the time is over."""
        until = time.monotonic() + seconds
        left = b""
        while not self.seen.closed and (now := time.monotonic()) < until:
            if not left and not (left := next(pieces, b"")):
                break
            able = self._poll(select.POLLOUT | (select.POLLIN if reading else 0), until - now)
            if able & ~select.POLLOUT:
                self._receive()
            if able & select.POLLOUT and not self.seen.closed:
                left = self._send(left)
        return self.seen

    def wait(self, condition: Callable[[Seen], object], seconds: float) -> Seen:
        """Read until the condition holds, the server closes, or the time is over."""
        until = time.monotonic() + seconds
        while not self.seen.closed and not condition(self.seen) and (now := time.monotonic()) < until:
            if self._poll(select.POLLIN, until - now):
                self._receive()
        return self.seen

    def _poll(self, events: int, seconds: float) -> int:
        poll = select.poll()
        poll.register(self.socket, events)
        return sum(able for _, able in poll.poll(seconds * 1000))

    def _send(self, data: bytes) -> bytes:
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            return data
        except (BrokenPipeError, ConnectionResetError):
            while not self.seen.closed:  # what it said before may still be there
                self._receive()
            return b""
        self.sent += sent
        return data[sent:]

    def _receive(self) -> None:
        try:
            data = self.socket.recv(2**18)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self.seen.closed = True
        self._unread += data
        self._read()

    def _read(self) -> None:
        data, at = self._unread, 0
        while len(data) - at >= 9:
            length = int.from_bytes(data[at : at + 3], "big")
            if len(data) - at < 9 + length:
                break
            kind, payload = data[at + 3], data[at + 9 : at + 9 + length]
            at += 9 + length
            self.seen.frames[kind] += 1
            if kind == GOAWAY:
                self.seen.goaway = int.from_bytes(payload[4:8], "big"), payload[8:].decode()
            elif kind == RST_STREAM:
                self.seen.resets[int.from_bytes(payload, "big")] += 1
            elif kind == HEADERS:
                self.seen.headers = (self.seen.headers + payload)[-10_000:]
        self._unread = data[at:]


def joined(frames: Iterator[bytes], many: int = 100) -> Iterator[bytes]:
    """The frames, many of them in a piece."""
    while piece := b"".join(islice(frames, many)):
        yield piece


def streams() -> Iterator[int]:
    return count(1, 2)


def begin(stream: int, path: bytes = INFER, end: bool = False, *more: tuple[bytes, bytes]) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(path, *more))


def rapid_reset() -> Iterator[bytes]:
    for stream in streams():
        yield begin(stream) + frame(RST_STREAM, 0, stream, long(CANCEL))


def rapid_reset_of_calls() -> Iterator[bytes]:
    whole = asking("slow", seconds=60)
    for stream in streams():
        yield (
            begin(stream)
            + frame(DATA, END_STREAM, stream, whole)
            + frame(RST_STREAM, 0, stream, long(CANCEL))
        )


def made_you_reset(fault: Callable[[int], bytes]) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        for stream in streams():
            yield begin(stream) + fault(stream)

    return pieces


def malformed_heads() -> Iterator[bytes]:
    for stream in streams():
        yield frame(HEADERS, END_HEADERS, stream, literal(b"Upper", b"case"))


def continuation(payload: bytes) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, 0, 1, block())
        while True:
            yield frame(CONTINUATION, 0, 1, payload)

    return pieces


def repeated(*frames: bytes) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        while True:
            yield from frames

    return pieces


def after_calls(calls: int, *frames: bytes) -> Callable[[], Iterator[bytes]]:
    """Frames that concern each stream, when many streams have something to send."""

    def pieces() -> Iterator[bytes]:
        whole = asking("echo")
        for stream in range(1, 2 * calls, 2):
            yield begin(stream) + frame(DATA, END_STREAM, stream, whole)
        while True:
            yield from frames

    return pieces


def bomb() -> Iterator[bytes]:
    """Blocks of 12 KB, each of which stands for a list of 48 MB."""
    yield frame(HEADERS, END_HEADERS | END_STREAM, 1, block() + literal(b"bomb", b"b" * 4000, 0x40))
    for stream in count(3, 2):
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\xbe" * 12_000)


def table_churn() -> Iterator[bytes]:
    """Calls of no RPC, each of which replaces all that the dynamic table holds."""
    for stream in streams():
        entries = b"".join(literal(b"n%d" % number, b"%d" % stream, 0x40) for number in range(110))
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, block(b"/none") + entries)


def rubbish() -> Iterator[bytes]:
    """Metadata whose values should be base64, new in each call so that nothing is remembered."""
    for stream in streams():
        more = [(b"k%d-bin" % key, b"!%d*" % stream * 40) for key in range(40)]
        yield begin(stream, INFER, True, *more)


def empty_data() -> Iterator[bytes]:
    yield begin(1, STREAM)
    while True:
        yield frame(DATA, 0, 1)


def padding() -> Iterator[bytes]:
    """DATA frames that hold padding only."""
    yield begin(1, STREAM)
    while True:
        yield frame(DATA, 8, 1, b"\xff" + bytes(255))


def after_goaway() -> Iterator[bytes]:
    """Calls, and the end of the connection as the client declares it, and then calls without end."""
    whole = asking("slow", seconds=60)
    yield begin(1) + frame(DATA, END_STREAM, 1, whole) + frame(GOAWAY, 0, 0, long(0) + long(0))
    for stream in count(3, 2):
        yield begin(stream, INFER, True)


@dataclass(frozen=True)
class Flood:
    """What is sent, and the code of the GOAWAY that ends it. None: it is served, at a bounded cost."""

    pieces: Callable[[], Iterator[bytes]]
    ends: int | None = CALM
    settings: bytes = b""
    reading: bool = True


FLOODS = {
    "rapid reset": Flood(rapid_reset),
    "rapid reset of calls": Flood(rapid_reset_of_calls),
    "made you reset: window of 0": Flood(
        made_you_reset(lambda stream: frame(WINDOW_UPDATE, 0, stream, long(0)))
    ),
    "made you reset: overflow": Flood(
        made_you_reset(lambda stream: frame(WINDOW_UPDATE, 0, stream, long(2**31 - 1)))
    ),
    "made you reset: priority": Flood(made_you_reset(lambda stream: frame(PRIORITY, 0, stream, b"1234"))),
    "made you reset: late data": Flood(
        made_you_reset(lambda stream: frame(DATA, END_STREAM, stream) + frame(DATA, END_STREAM, stream, b"x"))
    ),
    "malformed heads": Flood(malformed_heads),
    "continuation": Flood(continuation(literal(b"a", b"b" * 100))),
    "empty continuation": Flood(continuation(b"")),
    "ping": Flood(repeated(frame(PING, 0, 0, bytes(8)))),
    "ping without reading": Flood(repeated(frame(PING, 0, 0, bytes(8))), reading=False),
    "ping acknowledgements": Flood(repeated(frame(PING, 1, 0, bytes(8)))),
    "settings": Flood(repeated(frame(SETTINGS))),
    "settings without reading": Flood(repeated(frame(SETTINGS)), reading=False),
    "settings, with 1,000 streams that wait": Flood(
        after_calls(1000, *(frame(SETTINGS, 0, 0, setting((4, size))) for size in (0, 1))),
        settings=setting((4, 0)),
    ),
    "settings acknowledgements": Flood(repeated(frame(SETTINGS, 1))),
    "priority": Flood(repeated(frame(PRIORITY, 0, 1, long(0) + b"\x10"))),
    "window updates": Flood(repeated(frame(WINDOW_UPDATE, 0, 0, long(1)))),
    "window updates, with 1,000 streams that wait": Flood(
        after_calls(1000, frame(WINDOW_UPDATE, 0, 0, long(1))), settings=setting((4, 0))
    ),
    "resets of a closed stream": Flood(
        lambda: (
            begin(1, b"/none", True) if n == 0 else frame(RST_STREAM, 0, 1, long(CANCEL)) for n in count()
        )
    ),
    "empty data": Flood(empty_data),
    "padding": Flood(padding),
    "unknown frames": Flood(repeated(frame(0x77, 0xFF, 0, b"what"))),
    "calls after goaway": Flood(after_goaway),
    "hpack bomb": Flood(bomb, ends=None),
    "table churn": Flood(table_churn, ends=None),
    "-bin rubbish": Flood(rubbish, ends=None),
}


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stalled(port: int, streams: int, seconds: float) -> Peer:
    """Streams of a model that writes without end, for a client whose windows stay at zero."""
    peer = Peer(port, setting((4, 0)))
    calls = (
        begin(stream, STREAM) + frame(DATA, END_STREAM, stream, asking("streaming", items=1_000_000))
        for stream in range(1, 2 * streams, 2)
    )
    peer.pour(joined(calls), seconds)
    return peer


def idle(port: int, many: int) -> list[Peer]:
    """Connections that say who they are and then nothing."""
    hello = PREFACE + frame(SETTINGS) + frame(SETTINGS, 1)
    peers = []
    for _ in range(many):
        peer = Peer(port, start=False)
        peer.pour(iter([hello]), 5)
        peers.append(peer)
    return peers


def slow_preface(port: int, pause: float, seconds: float) -> Seen:
    """A byte of the preface after each pause."""
    with Peer(port, start=False) as peer:
        until = time.monotonic() + seconds
        for at in range(len(PREFACE)):
            peer.pour(iter([PREFACE[at : at + 1]]), 1)
            if peer.wait(lambda seen: seen.goaway, pause).closed or time.monotonic() > until:
                break
        return peer.seen


def oversize(port: int, size: int, sent: int) -> Seen:
    """A message that announces so many bytes, and brings some."""
    with Peer(port) as peer:
        first = begin(1) + frame(DATA, 0, 1, message(b"", size=size))
        parts = (frame(DATA, 0, 1, bytes(16_384)) for _ in range(sent // 16_384))
        peer.pour(joined(iter([first, *parts]), 4), 5)
        return peer.wait(lambda seen: b"grpc-status" in seen.headers, 5)


def inflating(port: int, encoding: bytes, size: int) -> Seen:
    """A compressed message that inflates to so many zeros."""
    if encoding == b"gzip":
        packed = gzip.compress(bytes(size), 9)
    else:
        packed = zlib.compress(bytes(size), 9)
    whole = message(packed, compressed=1)
    with Peer(port) as peer:
        parts = [whole[at : at + 16_000] for at in range(0, len(whole), 16_000)]
        sent = [frame(DATA, 0, 1, part) for part in parts[:-1]] + [frame(DATA, END_STREAM, 1, parts[-1])]
        peer.pour(iter([begin(1, INFER, False, (b"grpc-encoding", encoding)), *sent]), 10)
        return peer.wait(lambda seen: b"grpc-status" in seen.headers, 30)


class Neighbour:
    """A well-behaved client beside a flood, with a connection of its own: what its calls took, and which failed."""

    def __init__(self, target: str, pause: float = 0.02) -> None:
        self.took: list[float] = []
        self.failures: list[str] = []
        self._pause = pause
        self._channel = grpc.insecure_channel(target, [("grpc.use_local_subchannel_pool", 1)])
        self._infer = GRPCInferenceServiceStub(self._channel).ModelInfer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Neighbour":
        self.call()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()
        self._channel.close()

    def call(self) -> None:
        request = ModelInferRequest(model_name="echo")
        request.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1)
        began = time.monotonic()
        try:
            self._infer(request, timeout=30)
        except grpc.RpcError as error:
            self.failures.append(str(error))
        self.took.append(time.monotonic() - began)

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            self.call()
