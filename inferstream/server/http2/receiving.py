"""The receiving half of a connection: request heads, bodies and their flow-control windows."""

import logging
from abc import abstractmethod
from contextlib import suppress

from . import frames
from .abuse import Allowance
from .errors import ConnectionFault, ErrorCode, StreamFault
from .hpack import Decoder, Header, HeaderListTooLarge, HpackError, TooManyHeaders
from .limits import Http2Limits
from .reader import FrameReader
from .request import Request, check_fields
from .sending import Sender, Sending
from .settings import DEFAULT_WINDOW
from .stream import Accept, Stream, TooLarge

logger = logging.getLogger("inferstream.http2")

KNOWN_HEADS = 16
"""The maximum number of validated heads that a connection caches."""

SHORT_BLOCK = 512
"""The maximum size of a header block whose head is cached, in bytes."""

KNOWN_RESETS = 1024
"""The maximum number of reset streams to remember. Their frames may still arrive."""


class Receiving(Sender, FrameReader):
    """The receiving half of a connection. It extends the sending half, which the streams use."""

    streams: dict[int, Stream]

    def __init__(self, accept: Accept, too_large: TooLarge, limits: Http2Limits) -> None:
        FrameReader.__init__(self, limits)
        Sender.__init__(self)
        self._accept = accept
        self._too_large = too_large
        self._decoder = Decoder(max_list_size=limits.max_header_list)
        self._heads: dict[int, tuple[tuple[Header, ...], Request]] = {}
        """Validated heads by the identity of their header tuples, which the decoder caches."""
        self.streams = {}
        self.last_stream = 0
        self.last_served: int | None = None
        """The last stream that a draining connection serves."""
        self.ends_quietly = False
        self._resets: dict[int, None] = {}
        self._current: Stream | None = None
        """The stream of the current DATA frame."""
        self._receive_window = limits.connection_window
        """Bytes that the client may still send."""
        self._held = 0
        """Bytes that receivers have not consumed."""
        self.initial_window = DEFAULT_WINDOW
        self.resets_allowed = Allowance(self.clock, "too many requests were reset", 500, 100, 0.5)
        self.frames_allowed = Allowance(self.clock, "too many frames without use", 2000, 500, 4)
        self.opened_at = self.heard_at = self.used_at = self.clock()

    # Requests

    def on_headers(self, number: int, block: bytes, end: bool) -> None:
        if number <= self.last_stream or not number % 2:
            self._handle_later_headers(number, block, end)
            return
        self.last_stream = number
        try:
            headers = self._decode(block)
            known = self._heads.get(id(headers))
            request = self._build_request(headers, block) if known is None else known[1]
        except HeaderListTooLarge:
            request = None
        except StreamFault as fault:
            self._refuse(number, fault.code)
            return
        self._begin(number, request, end)

    def _handle_later_headers(self, number: int, block: bytes, end: bool) -> None:
        """Handle headers on a stream that has already been opened: trailers, unless the stream has closed."""
        if not number % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's streams have odd ids")
        if (stream := self.streams.get(number)) is not None:
            self._handle_trailers(stream, block, end)
        elif number in self._resets or self._comes_too_late(number):
            self.frames_allowed.spend(self.uses + self.sent)
            with suppress(HeaderListTooLarge):
                self._decode(block)  # keeps the compression state correct
        else:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, "HEADERS on a closed stream")

    def _build_request(self, headers: tuple[Header, ...], block: bytes) -> Request:
        request = Request(headers)
        if len(block) <= SHORT_BLOCK:  # the decoder returns the same tuple for a repeated block
            if len(self._heads) >= KNOWN_HEADS:
                self._heads.clear()
            self._heads[id(headers)] = (headers, request)
        return request

    def _decode(self, block: bytes) -> tuple[Header, ...]:
        try:
            return self._decoder.decode(block)
        except HpackError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from None
        except TooManyHeaders:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, "a header block has too many headers"
            ) from None

    def _begin(self, id: int, request: Request | None, end: bool) -> None:
        """Start a request. `request` is None if its head is too large."""
        if self.last_served is not None:
            self.frames_allowed.spend(self.uses + self.sent)
            return  # after GOAWAY, the client can retry the request
        if len(self.streams) >= self.limits.max_streams:
            self._refuse(id, ErrorCode.REFUSED_STREAM)
            return
        if request is not None and end and request.content_length:
            self._refuse(id, ErrorCode.PROTOCOL_ERROR)
            return
        self.uses += 1
        self.used_at = self.heard_at
        stream = Stream(self, id, self.initial_window, self.limits.stream_window, self.heard_at)
        stream.remote_ended = end
        self.streams[id] = stream
        if request is None:
            self._too_large(stream)
            return
        stream.content_left = request.content_length
        try:
            receiver = self._accept(stream, request, end)
        except Exception:  # the application's error must not affect other requests
            logger.exception("request failed before it reached a handler")
            stream.reset(ErrorCode.INTERNAL_ERROR)
            return
        if not stream.ended:
            stream.receiver = receiver

    def _comes_too_late(self, id: int) -> bool:
        """Whether a stream was opened after the last one that a draining connection serves."""
        return self.last_served is not None and id > self.last_served

    def _refuse(self, id: int, code: ErrorCode) -> None:
        self.resets_allowed.spend(self.served)
        self.write_control(frames.rst_stream(id, code))
        self._remember(id)

    def _handle_trailers(self, stream: Stream, block: bytes, end: bool) -> None:
        try:
            headers = self._decode(block)
        except HeaderListTooLarge:
            self._fail_stream(stream, StreamFault(ErrorCode.ENHANCE_YOUR_CALM, "the trailers are too large"))
            return
        try:
            if stream.remote_ended:
                raise StreamFault(ErrorCode.STREAM_CLOSED, "HEADERS follow the end of the stream")
            if not end:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "trailers do not end the stream")
            check_fields(headers)
            stream.take(b"", True)
        except StreamFault as fault:
            self._fail_stream(stream, fault)

    def _fail_stream(self, stream: Stream, fault: StreamFault) -> None:
        logger.debug("stream reset: %s", fault)
        self.resets_allowed.spend(self.served)
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
        if self._receive_window * 2 <= self.limits.connection_window:
            self._replenish()
        stream = self._current = self.streams.get(id)
        if stream is None:
            self.release_credit(length)
            if not id or id > self.last_stream or not id % 2:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "DATA on a stream that is not open")
            if id in self._resets or self._comes_too_late(id):
                self.frames_allowed.spend(self.uses + self.sent)
            else:
                self._refuse(id, ErrorCode.STREAM_CLOSED)
            return
        stream.receive_window -= length
        padding = length - self._data_left
        if padding:
            self.release_credit(padding)
            stream.extend_window(padding)
        if stream.receive_window < 0:
            self._fail_frame(
                stream, StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "the stream's window is exceeded")
            )
        elif stream.remote_ended:
            self._fail_frame(
                stream, StreamFault(ErrorCode.STREAM_CLOSED, "DATA follows the end of the stream")
            )
        else:
            stream.unread += self._data_left

    def _fail_frame(self, stream: Stream, fault: StreamFault) -> None:
        """Fail a stream at the start of a DATA frame, whose data is then discarded."""
        self._current = None
        self.release_credit(self._data_left)
        self._fail_stream(stream, fault)

    def on_data(self, data: bytes | memoryview, end: bool) -> None:
        stream = self._current
        if stream is None:
            return
        if data:
            self.uses += 1
        elif not end:
            self.frames_allowed.spend(self.uses + self.sent)
            return
        try:
            stream.take(data, end)
        except StreamFault as fault:
            self._current = None
            self._fail_stream(stream, fault)

    def release_credit(self, size: int) -> None:
        self._held -= size
        if self._receive_window * 2 <= self.limits.connection_window:
            self._replenish()

    def _replenish(self) -> None:
        """Open the connection's window, unless the streams hold too many unconsumed bytes."""
        limits = self.limits
        room = min(limits.connection_window, limits.max_held - self._held) - self._receive_window
        if room * 2 >= limits.connection_window and not self.ended:
            self._receive_window += room
            self.write_control(frames.window_update(0, room))

    # Closing of streams

    def forget(self, stream: Sending, *, reset: bool) -> None:
        self.streams.pop(stream.id, None)
        if self.waiting or self.beginning or self.ending:
            self.remove(stream)
        if reset:
            self._remember(stream.id)
        if not self.streams:
            self.handle_empty()

    def _remember(self, id: int) -> None:
        self._resets[id] = None
        if len(self._resets) > KNOWN_RESETS:
            del self._resets[next(iter(self._resets))]

    def handle_empty(self) -> None:
        """Update the idle time, and close the connection if it was draining and has no streams left."""
        self.used_at = self.clock()
        if self.last_served is not None and not self.streams:
            self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the connection and its streams."""
