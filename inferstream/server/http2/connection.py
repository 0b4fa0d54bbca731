"""One connection: its streams, its windows, and what each frame of its client means (RFC 9113)."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from . import frames, settings
from .abuse import Allowance, Pings
from .errors import ConnectionFault, ErrorCode, StreamFault
from .hpack import Decoder, Header, HeaderListTooLarge, HpackError
from .limits import Limits
from .reader import FrameReader
from .request import Request, check_fields
from .sending import LARGEST_FRAME, Sender
from .stream import Accept, Stream, TooLarge

logger = logging.getLogger("inferstream.http2")

KNOWN_HEADS = 16
"""Checked heads that a connection keeps."""

SHORT_BLOCK = 512
"""Bytes of a header block whose head a connection keeps."""

KNOWN_RESETS = 1024
"""Streams reset by the server, whose frames may still arrive."""

PREMATURE = 1.0
"""Seconds within which the reset of a request without a response counts against the client."""

NOT_HTTP2 = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"This port speaks HTTP/2 only.\n"
)

_DRAINING = b"draining"
"""The PING whose acknowledgement says that the client has seen the first GOAWAY."""

_KEEPALIVE = b"keepaliv"


class Connection(Sender, FrameReader, asyncio.Protocol):
    """Gives each request of a client to `accept`."""

    def __init__(
        self,
        accept: Accept,
        too_large: TooLarge,
        limits: Limits,
        made: Callable[["Connection"], bool],
        lost: Callable[["Connection"], None],
    ) -> None:
        """`made` may refuse a connection, by False; `lost` gets it when it has ended."""
        FrameReader.__init__(self, limits)
        Sender.__init__(self)
        clock = self.clock
        self._accept = accept
        self._too_large = too_large
        self._made = made
        self._lost = lost
        self._decoder = Decoder(max_list_size=limits.max_header_list)
        self._heads: dict[int, tuple[tuple[Header, ...], Request]] = {}
        """Checked heads by the identity of their header lists, which the decoder keeps."""
        self.streams: dict[int, Stream] = {}
        self._last_stream = 0
        self._resets: dict[int, None] = {}
        self._current: Stream | None = None
        """The stream of the current DATA frame."""
        self._receive_window = limits.connection_window
        self._unreturned = self._held = 0
        self._initial_window = settings.DEFAULT_WINDOW
        self.drain_began: float | None = None
        self._last_served: int | None = None
        """The last stream that a draining connection serves."""
        self.acknowledged = False
        """Whether the client knows the server's SETTINGS."""
        self._pings = Pings(clock, limits)
        self._resets_allowed = Allowance(clock, "too many requests were reset", 500, 100, 0.5)
        self._settings_allowed = Allowance(clock, "too many SETTINGS", 100, 1, 0)
        self._frames_allowed = Allowance(clock, "too many frames without use", 2000, 500, 4)
        self.opened_at = self.heard_at = self.used_at = clock()
        self.partial_since: float | None = self.opened_at
        """Since when the preface, a frame or a header block is incomplete."""
        self.pinged_at: float | None = None
        self.ended_at: float | None = None
        self.peername: Any = None

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
        transport.write(settings.settings_frame(ours) + window)
        if not self._made(self):
            self.end(ErrorCode.ENHANCE_YOUR_CALM, "too many connections")

    def data_received(self, data: bytes) -> None:
        if self.ended:
            return
        self.heard_at = self.clock()
        self.corked = True
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
                self.transport.write(NOT_HTTP2)
            self.close()
            return
        if self.waits_for_more:
            if self.partial_since is None or self.advanced:
                self.partial_since = self.clock()  # not when the reading began: it may have taken long
        else:
            self.partial_since = None
        self.uncork()

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

    # Requests

    def on_headers(self, number: int, block: bytes, end: bool) -> None:
        if number <= self._last_stream or not number % 2:
            self._later_headers(number, block, end)
            return
        self._last_stream = number
        try:
            headers = self._decode(block)
            known = self._heads.get(id(headers))
            request = self._request(headers, block) if known is None else known[1]
        except HeaderListTooLarge:
            request = None
        except StreamFault as fault:
            self._refuse(number, fault.code)
            return
        self._begin(number, request, end)

    def _later_headers(self, number: int, block: bytes, end: bool) -> None:
        """Headers of a stream that has begun: trailers."""
        if not number % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's streams have odd ids")
        if (stream := self.streams.get(number)) is not None:
            self._trailers(stream, block, end)
        elif number in self._resets:
            with suppress(HeaderListTooLarge):
                self._decode(block)  # for the state of the compression
        else:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, "HEADERS on a closed stream")

    def _request(self, headers: tuple[Header, ...], block: bytes) -> Request:
        request = Request(headers)
        if len(block) <= SHORT_BLOCK:  # the decoder gives the same headers for the same block
            if len(self._heads) >= KNOWN_HEADS:
                self._heads.clear()
            self._heads[id(headers)] = (headers, request)
        return request

    def _decode(self, block: bytes) -> tuple[Header, ...]:
        try:
            return self._decoder.decode(block)
        except HpackError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from None

    def _begin(self, id: int, request: Request | None, end: bool) -> None:
        """Begin a request; its head is too large if `request` is None."""
        if self._last_served is not None:
            self._frames_allowed.spend(self.uses + self.sent)
            self._remember(id)  # the client knows from GOAWAY that it may repeat it
            return
        if len(self.streams) >= self.limits.max_streams:
            self._refuse(id, ErrorCode.REFUSED_STREAM)
            return
        if request is not None and end and request.content_length:
            self._refuse(id, ErrorCode.PROTOCOL_ERROR)
            return
        self.uses += 1
        self.used_at = self.heard_at
        stream = Stream(self, id, self._initial_window, self.limits.stream_window, self.heard_at)
        stream.remote_ended = end
        self.streams[id] = stream
        if request is None:
            self._too_large(stream)
            return
        stream.content_left = request.content_length
        receiver = self._accept(stream, request, end)
        if not stream.ended:
            stream.receiver = receiver

    def _refuse(self, id: int, code: ErrorCode) -> None:
        self._resets_allowed.spend(self.served)
        self.control(frames.rst_stream(id, code))
        self._remember(id)

    def _trailers(self, stream: Stream, block: bytes, end: bool) -> None:
        try:
            headers = self._decode(block)
        except HeaderListTooLarge:
            self._fault(stream, StreamFault(ErrorCode.ENHANCE_YOUR_CALM, "the trailers are too large"))
            return
        try:
            if stream.remote_ended:
                raise StreamFault(ErrorCode.STREAM_CLOSED, "HEADERS follow the end of the stream")
            if not end:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers do not end the stream")
            check_fields(headers)
            stream.take(b"", True)
        except StreamFault as fault:
            self._fault(stream, fault)

    def _fault(self, stream: Stream, fault: StreamFault) -> None:
        """End a stream whose client broke the protocol."""
        logger.debug("a stream ends: %s", fault)
        self._resets_allowed.spend(self.served)
        receiver = stream.receiver
        stream.reset(fault.code)
        if receiver is not None:
            receiver.lost()

    # Bodies

    def on_data_frame(self, id: int, length: int) -> None:
        self._receive_window -= length
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is exceeded")
        self._held += length
        stream = self._current = self.streams.get(id)
        if stream is None:
            self.returned(length)
            if not id or id > self._last_stream or not id % 2:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "DATA on a stream that is not open")
            if id not in self._resets:
                self._refuse(id, ErrorCode.STREAM_CLOSED)
            return
        stream.receive_window -= length
        padding = length - self._data_left
        if padding:
            self.returned(padding)
            stream.credit(padding)
        if stream.receive_window < 0:
            self._unbegin(
                stream, StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "the stream's window is exceeded")
            )
        elif stream.remote_ended:
            self._unbegin(stream, StreamFault(ErrorCode.STREAM_CLOSED, "DATA follows the end of the stream"))
        else:
            stream.unread += self._data_left

    def _unbegin(self, stream: Stream, fault: StreamFault) -> None:
        """End a stream at a DATA frame, whose data then belongs to no stream."""
        self._current = None
        self.returned(self._data_left)
        self._fault(stream, fault)

    def on_data(self, data: bytes, end: bool) -> None:
        stream = self._current
        if stream is None:
            return
        if data:
            self.uses += 1
        elif not end:
            self._frames_allowed.spend(self.uses + self.sent)
            return
        try:
            stream.take(data, end)
        except StreamFault as fault:
            self._current = None
            self._fault(stream, fault)

    def returned(self, size: int) -> None:
        """Bytes of a body are no longer kept: let the client send as many further ones."""
        self._held -= size
        self._unreturned += size
        if self._unreturned * 2 >= self.limits.connection_window and not self.ended:
            self._receive_window += self._unreturned
            self.control(frames.window_update(0, self._unreturned))
            self._unreturned = 0

    # Other frames

    def on_frame(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        self._frames_allowed.spend(self.uses + self.sent)
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
        found = settings.read_settings(payload)
        self.control(settings.ACKNOWLEDGED)
        self.largest_frame = min(found.get(settings.MAX_FRAME_SIZE, self.largest_frame), LARGEST_FRAME)
        window = found.get(settings.INITIAL_WINDOW_SIZE, self._initial_window)
        change, self._initial_window = window - self._initial_window, window
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
            if (
                self.answered_pings
            ):  # sent while the event loop was held, so the client may not be blamed for it
                self.answered_pings -= 1
                return
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
            _require(id <= self._last_stream and id % 2 == 1, "WINDOW_UPDATE on an idle stream")
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
        _require(0 < id <= self._last_stream and id % 2 == 1, "RST_STREAM on an idle stream")
        stream = self.streams.pop(id, None)
        if stream is None:
            return
        stream.lose()
        if not stream.responded and self.heard_at - stream.opened_at < PREMATURE:
            self._resets_allowed.spend(self.served)
        self._emptied()

    def _priority(self, flags: int, id: int, payload: bytes) -> None:
        _require(bool(id), "PRIORITY belongs to a stream")
        if len(payload) != 5 or frames.read_long(payload[:4]) & frames.LAST_STREAM == id:
            wrong_size = len(payload) != 5
            code = ErrorCode.FRAME_SIZE_ERROR if wrong_size else ErrorCode.PROTOCOL_ERROR
            if (stream := self.streams.get(id)) is not None:
                self._fault(stream, StreamFault(code, "PRIORITY is malformed"))
            else:
                self._refuse(id, code)

    def _unread(self, flags: int, id: int, payload: bytes) -> None:
        raise AssertionError("the reader handles DATA and HEADERS")

    def _push_promise(self, flags: int, id: int, payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client sends no PUSH_PROMISE")

    # The end

    def forget(self, stream: Stream, *, reset: bool) -> None:
        """A stream has ended; `reset` if its client may still send frames."""
        self.streams.pop(stream.id, None)
        if reset:
            self._remember(stream.id)
        if not self.streams:
            self._emptied()

    def _remember(self, id: int) -> None:
        self._resets[id] = None
        if len(self._resets) > KNOWN_RESETS:
            del self._resets[next(iter(self._resets))]

    def _emptied(self) -> None:
        self.used_at = self.clock()
        if self._last_served is not None and not self.streams:
            self.close()

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
        self.control(
            frames.goaway(frames.LAST_STREAM, ErrorCode.NO_ERROR, "") + frames.ping(_DRAINING, ack=False)
        )

    def stop_accepting(self) -> None:
        """Serve the requests in progress alone, and then close."""
        if self.ended or self._last_served is not None:
            return
        self._last_served = self._last_stream
        self.control(frames.goaway(self._last_stream, ErrorCode.NO_ERROR, ""))
        if not self.streams:
            self.close()

    def end(self, code: ErrorCode, reason: str) -> None:
        """Say why the connection ends, and end it and its streams."""
        if self.ended:
            return
        self.control(frames.goaway(self._last_stream, code, reason))
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


_FRAMES: tuple[Callable[[Connection, int, int, bytes], None], ...] = (
    Connection._unread,
    Connection._unread,
    Connection._priority,
    Connection._rst_stream,
    Connection._settings,
    Connection._push_promise,
    Connection._ping,
    Connection._goaway,
    Connection._window_update,
)


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, otherwise)


def _require_size(right: bool) -> None:
    if not right:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame has the wrong size")
