"""A connection of ours without sockets: a transport that keeps what is written, and an application that echoes."""

import asyncio
from collections.abc import Iterator

from inferstream.server.http2 import frames
from inferstream.server.http2.connection import Http2Connection
from inferstream.server.http2.hpack import encode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.request import Request
from inferstream.server.http2.stream import Stream

HEAD = encode([(b":status", b"200"), (b"content-type", b"application/grpc")])
TRAILERS = encode([(b"grpc-status", b"0")])
TOO_LARGE = encode([(b":status", b"431")])


class FakeTransport(asyncio.Transport):
    """Keeps the bytes that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.times_written = 0
        self.unsent = 0
        """Bytes that the kernel has not taken, as far as the connection knows."""
        self.closed = False
        self.reading = True

    def pause_reading(self) -> None:
        assert not self.closed
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.closed
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "a write after the close"
        self.written += data
        self.times_written += 1

    def writelines(self, parts: list) -> None:
        self.write(b"".join(parts))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name == "peername" else default

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        taken = bytes(self.written)
        self.written.clear()
        return taken


class Echo:
    """Receives the body of one request. The path says how the response is made of it."""

    def __init__(self, stream: Stream, request: Request, silent: bool) -> None:
        self.stream = stream
        self.silent = silent
        self.path = request.path
        self.body = bytearray()
        self.ended = self.is_lost = False
        self._kept = 0

    def receive_data(self, data: bytes, end: bool) -> None:
        assert not self.ended, "bytes after the end"
        assert not self.is_lost, "bytes for a request that is lost"
        self.body += data
        self.ended = end
        if self.silent:
            self.stream.return_credit(len(data))
            return
        if self.path == b"/late":  # gives the window back at the end
            self._kept += len(data)
        else:
            self.stream.return_credit(len(data))
        if self.path == b"/stream":
            if not self.stream.responded:
                self.stream.open(HEAD)
            self.stream.send(b"", bytes(data))
            if end:
                self.stream.finish(TRAILERS)
        elif end:
            self.stream.return_credit(self._kept)
            self.stream.respond(HEAD, b"", bytes(self.body), TRAILERS)

    def time_out(self) -> None:
        raise AssertionError("nobody looks at the time")

    def lost(self) -> None:
        assert not self.is_lost, "lost twice"
        self.is_lost = True


class Served:
    """A connection, and every request that it has given to the application."""

    def __init__(self, limits: Http2Limits | None = None, *, silent: bool = False) -> None:
        """The application never responds if it is `silent`."""
        self.silent = silent
        self.echoes: dict[int, Echo] = {}
        self.transport = FakeTransport()
        self.ends = 0
        self.connection = Http2Connection(
            self._accept, self._too_large, limits or Http2Limits(), lambda connection: True, self._lost
        )
        self.connection.connection_made(self.transport)

    def _accept(self, stream: Stream, request: Request, end: bool) -> Echo | None:
        assert stream.id not in self.echoes, "a request was given twice"
        echo = self.echoes[stream.id] = Echo(stream, request, self.silent)
        if not self.silent and request.path == b"/refuse":
            stream.finish(HEAD)
            return None
        if end:
            echo.receive_data(b"", True)
        return echo

    def _too_large(self, stream: Stream) -> None:
        stream.finish(TOO_LARGE)

    def _lost(self, connection: Http2Connection) -> None:
        self.ends += 1

    def feed(self, data: bytes) -> bytes:
        """Give the connection bytes; what it has written since the last time."""
        if not self.transport.closed:
            self.connection.data_received(data)
        return self.transport.take()

    def leave(self) -> None:
        """The client has left: nothing may be in progress."""
        self.connection.connection_lost(None)
        assert self.ends == 1
        assert not self.connection.streams
        for echo in self.echoes.values():
            if self.silent:
                assert echo.is_lost, "a call without a response goes on"
            else:
                assert echo.ended or echo.is_lost or echo.path == b"/refuse" or echo.stream.ended


def read_frames(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Type, flags, stream and payload of each frame; the bytes must be whole frames."""
    while data:
        high, low, kind, flags, id = frames.read_head(data)
        end = frames.HEAD_BYTES + (high << 8 | low)
        assert len(data) >= end, "a part of a frame was written"
        yield kind, flags, id, data[frames.HEAD_BYTES : end]
        data = data[end:]
