"""One connection: its transport, the frames that concern it or no body, and its end (RFC 9113)."""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import cast

from . import frames, settings
from .abuse import Allowance, Pings
from .errors import ConnectionFault, ErrorCode, StreamFault
from .limits import Http2Limits
from .receiving import Receiving
from .sending import LARGEST_FRAME
from .stream import Accept, TooLarge

logger = logging.getLogger("inferstream.http2")

DEFAULT_TABLE = 4096
"""Bytes of a client's table for header compression before its SETTINGS."""

EMPTY_TABLE = b"\x20"
"""A size update of the dynamic table to 0 (RFC 7541 section 6.3)."""

LONG_READ = 16 * 1024
"""Bytes of a read whose frames may take long."""

LONG_TURN = 0.003
"""Seconds after which a client must let others have a turn: libuv may read 32 times before it looks at them."""

PREMATURE = 1.0
"""Seconds within which the reset of a request without a response counts against the client."""

NOT_HTTP2 = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"This port speaks HTTP/2 only.\n"
)

_DRAINING = b"draining"
"""The PING whose acknowledgement says that the client has seen the first GOAWAY."""

_KEEPALIVE = b"keepaliv"


class Http2Connection(Receiving, asyncio.Protocol):
    """Gives each request of a client to `accept`."""

    def __init__(
        self,
        accept: Accept,
        too_large: TooLarge,
        limits: Http2Limits,
        made: Callable[["Http2Connection"], bool],
        lost: Callable[["Http2Connection"], None],
    ) -> None:
        """`made` may refuse a connection, by False; `lost` gets it when it has ended."""
        super().__init__(accept, too_large, limits)
        self._made = made
        self._lost = lost
        self.drain_began: float | None = None
        self._table_emptied = False
        self.unsent: int | None = None
        """Bytes that an ended connection still had to send when the port looked."""
        self.acknowledged = False
        """Whether the client knows the server's SETTINGS."""
        self._pings = Pings(self.clock, limits)
        self._settings_allowed = Allowance(self.clock, "too many SETTINGS", 100, 1, 0)
        self.partial_since: float | None = self.opened_at
        """Since when the preface, a frame or a header block is incomplete."""
        self.pinged_at: float | None = None
        self.ended_at: float | None = None

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.peername = transport.get_extra_info("peername")
        transport, limits = self.transport, self.limits
        transport.set_write_buffer_limits(high=limits.max_unsent)
        ours = {
            settings.MAX_CONCURRENT_STREAMS: limits.max_streams,
            settings.INITIAL_WINDOW_SIZE: limits.stream_window,
            settings.MAX_FRAME_SIZE: limits.max_frame,
            settings.MAX_HEADER_LIST_SIZE: limits.max_header_list,
        }
        window = frames.window_update(0, limits.connection_window - settings.DEFAULT_WINDOW)
        # Written with the first bytes in response to the client's: one that speaks HTTP/1.1 gets no frames.
        self._unwritten.append(settings.settings_frame(ours) + window)
        if not self._made(self):
            self.end(ErrorCode.ENHANCE_YOUR_CALM, "too many connections")

    def data_received(self, data: bytes) -> None:
        if self.ended:
            return
        self.heard_at = self.clock()
        self.corked = True
        began = monotonic() if len(data) > LONG_READ else None
        try:
            begins_well = self.read(data)
        except ConnectionFault as fault:
            logger.debug("a connection ends: %s", fault)
            self.end(fault.code, fault.reason)
            return
        finally:
            self.corked = False
        if not begins_well:
            if data[:4].rstrip().isalpha():  # a method of HTTP/1.1
                self._unwritten.clear()
                self.transport.write(NOT_HTTP2)
            self.close()
            return
        if self.waits_for_more:
            if self.partial_since is None or self.advanced:
                self.partial_since = self.clock()  # not when the reading began: it may have taken long
        else:
            self.partial_since = None
        self.uncork()
        if began is not None and monotonic() - began > LONG_TURN and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        """Read again, after the other clients had their turn."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def eof_received(self) -> None:
        """The transport closes when the client has closed its side."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._lose_streams()
        self._lost(self)

    def _lose_streams(self) -> None:
        streams = [*self.streams.values()]
        self.streams.clear()
        self.waiting.clear()
        self._current = None
        for stream in streams:
            stream.lose()

    # Other frames

    def on_frame(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        self.frames_allowed.spend(self.uses + self.sent)
        if kind < len(_FRAMES):
            _FRAMES[kind](self, flags, id, payload)
        # A type that is unknown is ignored (section 4.1).

    def _settings(self, flags: int, id: int, payload: bytes) -> None:
        _require(not id, "SETTINGS belongs to the connection")
        if flags & frames.ACK:
            _require_size(not payload)
            self.acknowledged = True
            return
        self._settings_allowed.spend(0)  # they may concern every stream
        chosen = settings.read_settings(payload)
        self.control(settings.ACKNOWLEDGED)
        if not self._table_emptied and chosen.get(settings.HEADER_TABLE_SIZE, DEFAULT_TABLE) < DEFAULT_TABLE:
            # Our blocks use no dynamic table, but a client with a smaller one must be told (RFC 7541 section 4.2).
            self._table_emptied, self.table_update = True, EMPTY_TABLE
        self.largest_frame = min(chosen.get(settings.MAX_FRAME_SIZE, self.largest_frame), LARGEST_FRAME)
        window = chosen.get(settings.INITIAL_WINDOW_SIZE, self.initial_window)
        change, self.initial_window = window - self.initial_window, window
        if change:
            for stream in [*self.streams.values()]:
                stream.send_window += change
                if stream.send_window > frames.LARGEST_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is above 2^31-1")
                if stream.waits:
                    self.flush(stream)

    def _ping(self, flags: int, id: int, payload: bytes) -> None:
        _require(not id, "PING belongs to the connection")
        _require_size(len(payload) == 8)
        if not flags & frames.ACK:
            self.control(frames.ping(payload, ack=True))
            self._pings.received(self.sent, len(self.streams))
        elif payload == _DRAINING:
            self.stop_accepting()

    def _goaway(self, flags: int, id: int, payload: bytes) -> None:
        _require(not id, "GOAWAY belongs to the connection")
        _require_size(len(payload) >= 8)
        self.stop_accepting()

    def _window_update(self, flags: int, id: int, payload: bytes) -> None:
        _require_size(len(payload) == 4)
        size = frames.read_long(payload) & frames.LARGEST_WINDOW
        if not id:
            _require(bool(size), "WINDOW_UPDATE is 0")
            self.send_window += size
            if self.send_window > frames.LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is above 2^31-1")
            self.flush_all()
            return
        stream = self.streams.get(id)
        if stream is None:
            _require(id <= self.last_stream and id % 2 == 1, "WINDOW_UPDATE on an idle stream")
            if not size:
                self._refuse(id, ErrorCode.PROTOCOL_ERROR)
            return
        stream.send_window += size
        if not size:
            self._fault(stream, StreamFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE is 0"))
        elif stream.send_window > frames.LARGEST_WINDOW:
            self._fault(stream, StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is above 2^31-1"))
        elif stream.waits:
            self.flush(stream)

    def _rst_stream(self, flags: int, id: int, payload: bytes) -> None:
        _require_size(len(payload) == 4)
        _require(0 < id <= self.last_stream and id % 2 == 1, "RST_STREAM on an idle stream")
        stream = self.streams.pop(id, None)
        if stream is None:
            return
        stream.lose()
        if not stream.responded and self.heard_at - stream.opened_at < PREMATURE:
            self.resets_allowed.spend(self.served)
        self.emptied()

    def _priority(self, flags: int, id: int, payload: bytes) -> None:
        _require(bool(id), "PRIORITY belongs to a stream")
        if len(payload) != 5 or frames.read_long(payload[:4]) & frames.LAST_STREAM == id:
            wrong_size = len(payload) != 5
            code = ErrorCode.FRAME_SIZE_ERROR if wrong_size else ErrorCode.PROTOCOL_ERROR
            if (stream := self.streams.get(id)) is not None:
                self._fault(stream, StreamFault(code, "PRIORITY is malformed"))
            elif id > self.last_stream:
                raise ConnectionFault(code, "PRIORITY is malformed")  # an idle stream has no RST_STREAM
            else:
                self._refuse(id, code)

    def _of_reader(self, flags: int, id: int, payload: bytes) -> None:
        raise AssertionError("the reader handles DATA and HEADERS")

    def _push_promise(self, flags: int, id: int, payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client sends no PUSH_PROMISE")

    # The end

    def keepalive(self) -> None:
        """Send a PING, to hear whether the client is still there."""
        self.pinged_at = self.clock()
        self.control(frames.ping(_KEEPALIVE, ack=False))

    @property
    def draining(self) -> bool:
        return self.drain_began is not None

    def drain(self) -> None:
        """Serve the requests in progress, and those on their way, and then close (RFC 9113 section 6.8)."""
        if self.ended or self.draining:
            return
        self.drain_began = self.clock()
        if self.ends_quietly:
            if not self.streams:
                self.stop_accepting()
            return
        self.control(
            frames.goaway(frames.LAST_STREAM, ErrorCode.NO_ERROR, "") + frames.ping(_DRAINING, ack=False)
        )

    shutdown = drain

    def emptied(self) -> None:
        super().emptied()
        if self.ends_quietly and self.draining:
            self.stop_accepting()

    def stop_accepting(self) -> None:
        """Serve the requests in progress alone, and then close."""
        if self.ended or self.last_served is not None:
            return
        self.last_served = self.last_stream
        self.control(frames.goaway(self.last_stream, ErrorCode.NO_ERROR, ""))
        if not self.streams:
            self.close()

    def end(self, code: ErrorCode, reason: str) -> None:
        """Say why the connection ends, and end it and its streams."""
        if self.ended:
            return
        # Never more than an earlier GOAWAY said (section 6.8).
        last = self.last_stream if self.last_served is None else self.last_served
        self.send_later()
        self.control(frames.goaway(last, code, reason))
        self.corked = False
        self.uncork()
        self.close()

    def close(self) -> None:
        """End the connection and its streams; what is written still reaches a client that reads."""
        if not self.ended:
            self.uncork()
            self.ended = True
            self.ended_at = self.clock()
            if self.transport.can_write_eof():
                # A socket that is closed with unread bytes resets the connection, and the client may lose the last
                # frames. So this side alone is closed, and bytes are read and ignored until the client closes its own.
                self.transport.write_eof()
            else:
                self.transport.close()
            self._lose_streams()


_FRAMES: tuple[Callable[[Http2Connection, int, int, bytes], None], ...] = (
    Http2Connection._of_reader,
    Http2Connection._of_reader,
    Http2Connection._priority,
    Http2Connection._rst_stream,
    Http2Connection._settings,
    Http2Connection._push_promise,
    Http2Connection._ping,
    Http2Connection._goaway,
    Http2Connection._window_update,
)


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, otherwise)


def _require_size(right: bool) -> None:
    if not right:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame has the wrong size")
