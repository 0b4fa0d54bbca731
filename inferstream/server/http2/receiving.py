"""The receiving half of a connection: the heads of requests, their bodies, and the windows for these."""

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
"""Checked heads that a connection keeps."""

SHORT_BLOCK = 512
"""Bytes of a header block whose head a connection keeps."""

KNOWN_RESETS = 1024
"""Streams reset by the server, whose frames may still arrive."""


class Receiving(Sender, FrameReader):
    """The receiving half of a connection, over the sending half, which its streams need."""

    streams: dict[int, Stream]

    def __init__(self, accept: Accept, too_large: TooLarge, limits: Http2Limits) -> None:
        FrameReader.__init__(self, limits)
        Sender.__init__(self)
        self._accept = accept
        self._too_large = too_large
        self._decoder = Decoder(max_list_size=limits.max_header_list)
        self._heads: dict[int, tuple[tuple[Header, ...], Request]] = {}
        """Checked heads by the identity of their header lists, which the decoder keeps."""
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
        """Bytes that receivers keep unread."""
        self.initial_window = DEFAULT_WINDOW
        self.resets_allowed = Allowance(self.clock, "too many requests were reset", 500, 100, 0.5)
        self.frames_allowed = Allowance(self.clock, "too many frames without use", 2000, 500, 4)
        self.opened_at = self.heard_at = self.used_at = self.clock()

    # Requests

    def on_headers(self, number: int, block: bytes, end: bool) -> None:
        if number <= self.last_stream or not number % 2:
            self._later_headers(number, block, end)
            return
        self.last_stream = number
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
        elif number in self._resets or self._is_ignored(number):
            self.frames_allowed.spend(self.uses + self.sent)
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
        except TooManyHeaders:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, "a header block has too many headers"
            ) from None

    def _begin(self, id: int, request: Request | None, end: bool) -> None:
        """Begin a request; its head is too large if `request` is None."""
        if self.last_served is not None:
            self.frames_allowed.spend(self.uses + self.sent)
            return  # the client knows from GOAWAY that it may repeat the request
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
        except Exception:  # of the application, which must not end the other requests
            logger.exception("a request could not begin")
            stream.reset(ErrorCode.INTERNAL_ERROR)
            return
        if not stream.ended:
            stream.receiver = receiver

    def _is_ignored(self, id: int) -> bool:
        """Whether a stream began after the last one that a draining connection serves."""
        return self.last_served is not None and id > self.last_served

    def _refuse(self, id: int, code: ErrorCode) -> None:
        self.resets_allowed.spend(self.served)
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
        logger.debug("a stream ends: %s", fault)
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
            self.returned(length)
            if not id or id > self.last_stream or not id % 2:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "DATA on a stream that is not open")
            if id in self._resets or self._is_ignored(id):
                self.frames_allowed.spend(self.uses + self.sent)
            else:
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
            self._fault(stream, fault)

    def returned(self, size: int) -> None:
        self._held -= size
        if self._receive_window * 2 <= self.limits.connection_window:
            self._replenish()

    def _replenish(self) -> None:
        """Let the client send more, unless its streams keep much that nobody has read."""
        limits = self.limits
        room = min(limits.connection_window, limits.max_held - self._held) - self._receive_window
        if room * 2 >= limits.connection_window and not self.ended:
            self._receive_window += room
            self.control(frames.window_update(0, room))

    # The end of a stream

    def forget(self, stream: Sending, *, reset: bool) -> None:
        self.streams.pop(stream.id, None)
        if self.waiting or self.beginning or self.ending:
            self.leave(stream)
        if reset:
            self._remember(stream.id)
        if not self.streams:
            self.emptied()

    def _remember(self, id: int) -> None:
        self._resets[id] = None
        if len(self._resets) > KNOWN_RESETS:
            del self._resets[next(iter(self._resets))]

    def emptied(self) -> None:
        """No request is in progress, perhaps."""
        self.used_at = self.clock()
        if self.last_served is not None and not self.streams:
            self.close()

    @abstractmethod
    def close(self) -> None:
        """End the connection and its streams."""
