"""A connection to a server, and its frames as they arrive."""

import itertools
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import hpack

from . import wire
from .wire import ACK, END_HEADERS, END_STREAM

CODES = {
    value: name
    for name, value in vars(wire).items()
    if name in ("NO_ERROR", "REFUSED_STREAM", "STREAM_CLOSED", "CANCEL", "ENHANCE_YOUR_CALM")
    or name.endswith("_ERROR")
}
KINDS = {
    value: name
    for name, value in vars(wire).items()
    if name in ("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PING", "GOAWAY", "WINDOW_UPDATE")
}
WITHIN = 10.0
"""Seconds that a reaction may take. A server that is right needs none of them."""


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    def __str__(self) -> str:
        name = KINDS.get(self.kind, f"type {self.kind}")
        if self.kind in (wire.RST_STREAM, wire.GOAWAY):
            code = int.from_bytes(self.payload[-4:] if self.kind == wire.RST_STREAM else self.payload[4:8])
            return f"{name} {CODES.get(code, code)} on {self.stream}"
        return f"{name} of {len(self.payload)} octets, flags {self.flags:#x}, on {self.stream}"


class Unexpected(AssertionError):
    """The server did something else."""


@dataclass
class Response:
    """What arrived of the response on a stream."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    data: bytes = b""
    begun: bool = False
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> str:
        return dict(self.fields).get(":status", "")


class Conversation:
    """A connection whose frames are read one by one, as far as a case waits for."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection(address, WITHIN)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self._socket = context.wrap_socket(self._socket, server_hostname="localhost")
        self._received = b""
        self._decoder = hpack.Decoder()
        self._decoder.max_allowed_table_size = 2**32
        self._pings = itertools.count(1)
        self.responses: dict[int, Response] = {}
        self.settings: dict[int, int] = {}
        self.frames: list[Frame] = []
        self.closed = False

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def open(self, *pairs: tuple[int, int]) -> None:
        """Send the preface, and read the server's."""
        self.send(wire.PREFACE + wire.settings(*pairs))
        self.wait_for(lambda frame: frame.kind == wire.SETTINGS and not frame.flags & ACK, "its SETTINGS")
        self.send(wire.frame(wire.SETTINGS, ACK, 0))

    def send(self, octets: bytes) -> None:
        """Send; a server that has closed already has said why, or fails the next wait."""
        try:
            self._socket.sendall(octets)
        except OSError:
            return

    def wait_for(self, wanted: Callable[[Frame], bool], what: str) -> Frame:
        """The next frame that is `wanted`; the frames before it are noted."""
        for frame in self._arriving():
            if wanted(frame):
                return frame
        raise Unexpected(f"expected {what}, got {self.seen()}")

    def ping(self) -> None:
        """Wait until the server has acknowledged a PING, and so read everything sent before."""
        payload = struct.pack(">Q", next(self._pings))
        self.send(wire.ping(payload))
        self.wait_for(
            lambda frame: frame.kind == wire.PING and bool(frame.flags & ACK) and frame.payload == payload,
            "the acknowledgement of a PING",
        )

    def wait_for_end(self) -> None:
        """Wait until the server has closed the connection."""
        for _ in self._arriving():
            pass
        if not self.closed:
            raise Unexpected(f"expected the connection closed, got {self.seen()}")

    def response(self, stream: int) -> Response:
        return self.responses.setdefault(stream, Response())

    def seen(self) -> str:
        """What has arrived, for the message of a failure."""
        end = ["the end of the connection"] if self.closed else ["nothing more"]
        return ", ".join([*map(str, self.frames[-6:]), *end])

    def _arriving(self) -> Iterator[Frame]:
        """The frames as they arrive, until the connection ends or for too long none is the one waited for."""
        until = time.monotonic() + WITHIN
        while True:
            while (frame := self._next()) is not None:
                self.frames.append(frame)
                self._note(frame)
                yield frame
            if self.closed or time.monotonic() > until:
                return
            self._receive(until)

    def _receive(self, until: float) -> None:
        self._socket.settimeout(max(0.01, until - time.monotonic()))
        try:
            received = self._socket.recv(2**16)
        except TimeoutError:
            return
        except OSError:  # reset, which closes too
            received = b""
        self._received += received
        self.closed = not received

    def _next(self) -> Frame | None:
        if len(self._received) < 9:
            return None
        length = int.from_bytes(self._received[:3])
        if len(self._received) < 9 + length:
            return None
        kind, flags, stream = struct.unpack(">BBI", self._received[3:9])
        payload = self._received[9 : 9 + length]
        self._received = self._received[9 + length :]
        return Frame(kind, flags, stream & 0x7FFFFFFF, payload)

    def _note(self, frame: Frame) -> None:
        response = self.response(frame.stream)
        if frame.kind == wire.SETTINGS and not frame.flags & ACK:
            self.settings |= dict(struct.iter_unpack(">HI", frame.payload))
        elif frame.kind == wire.HEADERS:
            if not frame.flags & END_HEADERS:
                raise Unexpected("this client expects short header blocks")
            response.fields += [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in self._decoder.decode(frame.payload, raw=True)
            ]
            response.begun = True
        elif frame.kind == wire.DATA:
            response.data += frame.payload
        elif frame.kind == wire.RST_STREAM:
            response.reset = int.from_bytes(frame.payload)
        if frame.kind in (wire.HEADERS, wire.DATA) and frame.flags & END_STREAM:
            response.ended = True
