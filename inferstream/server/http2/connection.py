"""An HTTP/2 connection (RFC 9113): its transport, its connection-level frames and its shutdown."""

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
from .sending import MAX_FRAME_SIZE
from .stream import Accept, TooLarge

logger = logging.getLogger("inferstream.http2")

DEFAULT_TABLE = 4096
"""The default size of a client's header compression table, in bytes."""

EMPTY_TABLE = b"\x20"
"""A dynamic table size update to 0 (RFC 7541, section 6.3)."""

LONG_READ = 16 * 1024
"""Reads of more than this many bytes are timed, because their frames may take long to process."""

LONG_TURN = 0.003
"""Seconds of processing one read after which reading pauses, so that other clients have a turn.

Without the pause, libuv may read from the same connection 32 times in a row.
"""

PREMATURE = 1.0
"""Seconds within which a reset counts against the client if the request has no response yet."""

NOT_HTTP2 = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"This port speaks HTTP/2 only.\n"
)

_DRAINING = b"draining"
"""The payload of the PING whose acknowledgement means that the client has received the first GOAWAY."""

_KEEPALIVE = b"keepaliv"


class Http2Connection(Receiving, asyncio.Protocol):
    """An HTTP/2 connection, which passes each request of its client to `accept`."""

    def __init__(
        self,
        accept: Accept,
        too_large: TooLarge,
        limits: Http2Limits,
        made: Callable[["Http2Connection"], bool],
        lost: Callable[["Http2Connection"], None],
    ) -> None:
        """Create the protocol of a connection.

        `made` is called when the connection opens, and returns False to reject it. `lost` is called when it
        has closed.
        """
        super().__init__(accept, too_large, limits)
        self._made = made
        self._lost = lost
        self.drain_began: float | None = None
        self._table_emptied = False
        self.unsent: int | None = None
        """Unsent bytes of a closing connection at the port's last check."""
        self.acknowledged = False
        """Whether the client has acknowledged the server's SETTINGS."""
        self._pings = Pings(self.clock, limits)
        self._settings_allowed = Allowance(self.clock, "too many SETTINGS", 100, 1, 0)
        self.partial_since: float | None = self.opened_at
        """The time since which the preface, a frame or a header block has been incomplete, or None."""
        self.pinged_at: float | None = None
        self.ended_at: float | None = None

    # Transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
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
        # Sent with the first reply, so that a client that speaks HTTP/1.1 receives no frames.
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
            logger.debug("connection closed: %s", fault)
            self.end(fault.code, fault.reason)
            return
        finally:
            self.corked = False
        if not begins_well:
            if data[:4].rstrip().isalpha():  # an HTTP/1.1 method
                self._unwritten.clear()
                self.transport.write(NOT_HTTP2)
            self.close()
            return
        if self.waits_for_more:
            if self.partial_since is None or self.advanced:
                self.partial_since = self.clock()  # not the start of the read, which may have taken long
        else:
            self.partial_since = None
        self.uncork()
        if began is not None and monotonic() - began > LONG_TURN and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_soon(self._resume_reading)

    def _resume_reading(self) -> None:
        """Resume reading after other clients have had their turn."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def eof_received(self) -> None:
        """Let the transport close, because the client has closed its side."""

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
        # Unknown frame types are ignored (section 4.1).

    def _handle_settings(self, flags: int, id: int, payload: bytes) -> None:
        _require(not id, "SETTINGS belongs to the connection")
        if flags & frames.ACK:
            _require_size(not payload)
            self.acknowledged = True
            return
        self._settings_allowed.spend(0)  # SETTINGS may affect every stream
        chosen = settings.read_settings(payload)
        self.write_control(settings.ACKNOWLEDGED)
        if not self._table_emptied and chosen.get(settings.HEADER_TABLE_SIZE, DEFAULT_TABLE) < DEFAULT_TABLE:
            # The server's blocks use no dynamic table, but a smaller table requires a size update (RFC 7541,
            # section 4.2).
            self._table_emptied, self.table_update = True, EMPTY_TABLE
        self.largest_frame = min(chosen.get(settings.MAX_FRAME_SIZE, self.largest_frame), MAX_FRAME_SIZE)
        window = chosen.get(settings.INITIAL_WINDOW_SIZE, self.initial_window)
        change, self.initial_window = window - self.initial_window, window
        if change:
            for stream in [*self.streams.values()]:
                stream.send_window += change
                if stream.send_window > frames.MAX_WINDOW_SIZE:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is above 2^31-1")
                if stream.waits:
                    self.flush(stream)

    def _handle_ping(self, flags: int, id: int, payload: bytes) -> None:
        _require(not id, "PING belongs to the connection")
        _require_size(len(payload) == 8)
        if not flags & frames.ACK:
            self.write_control(frames.ping(payload, ack=True))
            self._pings.count_ping(self.sent, len(self.streams))
        elif payload == _DRAINING:
            self.stop_accepting()

    def _handle_goaway(self, flags: int, id: int, payload: bytes) -> None:
        _require(not id, "GOAWAY belongs to the connection")
        _require_size(len(payload) >= 8)
        self.stop_accepting()

    def _handle_window_update(self, flags: int, id: int, payload: bytes) -> None:
        _require_size(len(payload) == 4)
        size = frames.read_long(payload) & frames.MAX_WINDOW_SIZE
        if not id:
            _require(bool(size), "WINDOW_UPDATE is 0")
            self.send_window += size
            if self.send_window > frames.MAX_WINDOW_SIZE:
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
            self._fail_stream(stream, StreamFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE is 0"))
        elif stream.send_window > frames.MAX_WINDOW_SIZE:
            self._fail_stream(stream, StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is above 2^31-1"))
        elif stream.waits:
            self.flush(stream)

    def _handle_rst_stream(self, flags: int, id: int, payload: bytes) -> None:
        _require_size(len(payload) == 4)
        _require(0 < id <= self.last_stream and id % 2 == 1, "RST_STREAM on an idle stream")
        stream = self.streams.pop(id, None)
        if stream is None:
            return
        stream.lose()
        if not stream.responded and self.heard_at - stream.opened_at < PREMATURE:
            self.resets_allowed.spend(self.served)
        self.handle_empty()

    def _handle_priority(self, flags: int, id: int, payload: bytes) -> None:
        _require(bool(id), "PRIORITY belongs to a stream")
        if len(payload) != 5 or frames.read_long(payload[:4]) & frames.LAST_STREAM == id:
            wrong_size = len(payload) != 5
            code = ErrorCode.FRAME_SIZE_ERROR if wrong_size else ErrorCode.PROTOCOL_ERROR
            if (stream := self.streams.get(id)) is not None:
                self._fail_stream(stream, StreamFault(code, "PRIORITY is malformed"))
            elif id > self.last_stream:
                raise ConnectionFault(code, "PRIORITY is malformed")  # an idle stream cannot be reset
            else:
                self._refuse(id, code)

    def _unreachable(self, flags: int, id: int, payload: bytes) -> None:
        raise AssertionError("the reader handles DATA and HEADERS")

    def _reject_push_promise(self, flags: int, id: int, payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client sends no PUSH_PROMISE")

    # Closing

    def send_keepalive_ping(self) -> None:
        """Send a PING to detect whether the client is still alive."""
        self.pinged_at = self.clock()
        self.write_control(frames.ping(_KEEPALIVE, ack=False))

    @property
    def draining(self) -> bool:
        return self.drain_began is not None

    def drain(self) -> None:
        """Serve all requests in progress or in transit, then close (RFC 9113, section 6.8)."""
        if self.ended or self.draining:
            return
        self.drain_began = self.clock()
        if self.ends_quietly:
            if not self.streams:
                self.stop_accepting()
            return
        self.write_control(
            frames.goaway(frames.LAST_STREAM, ErrorCode.NO_ERROR, "") + frames.ping(_DRAINING, ack=False)
        )

    shutdown = drain

    def handle_empty(self) -> None:
        super().handle_empty()
        if self.ends_quietly and self.draining:
            self.stop_accepting()

    def stop_accepting(self) -> None:
        """Serve only the requests in progress, then close."""
        if self.ended or self.last_served is not None:
            return
        self.last_served = self.last_stream
        self.write_control(frames.goaway(self.last_stream, ErrorCode.NO_ERROR, ""))
        if not self.streams:
            self.close()

    def end(self, code: ErrorCode, reason: str) -> None:
        """Send the reason in a GOAWAY frame, then close the connection and its streams."""
        if self.ended:
            return
        # The stream id must not increase from one GOAWAY to the next (section 6.8).
        last = self.last_stream if self.last_served is None else self.last_served
        self.send_later()
        self.write_control(frames.goaway(last, code, reason))
        self.corked = False
        self.uncork()
        self.close()

    def close(self) -> None:
        """Close the connection and its streams. Written bytes still reach a client that reads."""
        if not self.ended:
            self.uncork()
            self.ended = True
            self.ended_at = self.clock()
            if self.transport.can_write_eof():
                # Closing a socket with unread bytes resets the connection, and the client may lose the last
                # frames. So only the server's side is closed, and incoming bytes are discarded until the
                # client closes.
                self.transport.write_eof()
            else:
                self.transport.close()
            self._lose_streams()


_FRAMES: tuple[Callable[[Http2Connection, int, int, bytes], None], ...] = (
    Http2Connection._unreachable,
    Http2Connection._unreachable,
    Http2Connection._handle_priority,
    Http2Connection._handle_rst_stream,
    Http2Connection._handle_settings,
    Http2Connection._reject_push_promise,
    Http2Connection._handle_ping,
    Http2Connection._handle_goaway,
    Http2Connection._handle_window_update,
)


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, otherwise)


def _require_size(right: bool) -> None:
    if not right:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame has the wrong size")
