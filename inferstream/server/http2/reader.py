"""Parsing of bytes into frames: the preface, DATA payloads as they arrive, header blocks and other frames."""

from abc import ABC, abstractmethod

from . import frames
from .errors import ConnectionFault, ErrorCode
from .limits import Http2Limits

WORTH_A_VIEW = 64 * 1024
"""Bytes of data above which a view is cheaper than a copy. A view keeps the whole read in memory."""

MAX_BLOCK_SIZE = 1024 * 1024
"""The maximum size of a header block in bytes.

This is far above the size of a legal head, so that a request with too large a head still receives a response.
"""

MAX_CONTINUATIONS = 64
"""The maximum number of CONTINUATION frames per header block.

A block of the maximum size needs this many frames of the smallest size. Frames may be empty.
"""


class FrameReader(ABC):
    """Parses the bytes of one connection.

    DATA payloads are passed on in parts. All other frames are small and passed on whole.
    """

    def __init__(self, limits: Http2Limits) -> None:
        self.limits = limits
        self._rest = bytearray()
        """The part of an incomplete preface or frame that has arrived."""
        self._needed = 0
        """The number of bytes that `_rest` must have before parsing continues."""
        self._begun = self._configured = False
        self._data_left = self._padding_left = 0
        """Bytes of the current DATA frame that are still to arrive."""
        self._data_end = False
        self._block: list[bytes] | None = None
        self._block_stream = 0
        self._block_end = False
        self.advanced = False
        """Whether the last read completed a frame or a header block, so that any incomplete one is new."""

    @abstractmethod
    def on_data_frame(self, id: int, length: int) -> None:
        """Handle the start of a DATA frame of `length` bytes, including padding. Its data follows."""

    @abstractmethod
    def on_data(self, data: bytes | memoryview, end: bool) -> None:
        """Handle bytes of the current DATA frame. A large number of bytes is passed as a memoryview.

        `end` is true for the last bytes of the body.
        """

    @abstractmethod
    def on_headers(self, id: int, block: bytes, end: bool) -> None:
        """Handle a complete header block. `end` is true if the stream has no more frames."""

    @abstractmethod
    def on_frame(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        """Handle any other frame."""

    @property
    def waits_for_more(self) -> bool:
        """Whether the preface, a header block or a frame other than DATA is incomplete."""
        return bool(self._rest or self._block or not self._configured)

    def read(self, data: bytes) -> bool:
        """Parse the next bytes. Returns False if the preface is wrong. Raises ConnectionFault."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                self.advanced = False
                return True
            data = bytes(self._rest)
            self._rest.clear()
        position, block = 0, self._block
        if not self._begun:
            if not data.startswith(frames.PREFACE):
                self._rest += data
                return frames.PREFACE.startswith(data)
            self._begun = True
            position = len(frames.PREFACE)
        size, needed = len(data), frames.HEAD_BYTES
        if self._data_left or self._padding_left:
            position = self._process_data(data, position, size)
        while size - position >= frames.HEAD_BYTES:
            high, low, kind, flags, id = frames.read_head(data, position)
            begin = position + frames.HEAD_BYTES
            length = high << 8 | low
            id &= frames.LAST_STREAM
            if kind == frames.DATA:
                if flags & frames.PADDED and begin == size:
                    break  # the padding length is missing
                begin = self._begin_data(data, begin, length, flags, id)
                position = self._process_data(data, begin, size)
                continue
            self._check_length(kind, length)
            end = begin + length
            if end > size:
                needed = end - position
                break
            self._process_frame(kind, flags, id, data[begin:end])
            position = end
        if position < size:
            self._rest += data[position:]
            self._needed = needed
        self.advanced = (
            position > 0 and self._configured and (self._block is None or self._block is not block)
        )
        return True

    def _begin_data(self, data: bytes, begin: int, length: int, flags: int, id: int) -> int:
        """Start a DATA frame, and return the position of its data."""
        if length > self.limits.max_frame:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is larger than MAX_FRAME_SIZE")
        if self._block is not None or not self._configured:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "DATA comes before its time")
        self._data_left, self._padding_left = length, 0
        if flags & frames.PADDED:
            if not length or data[begin] >= length:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the padding is longer than its frame")
            self._padding_left = data[begin]
            self._data_left = length - 1 - self._padding_left
            begin += 1
        self._data_end = bool(flags & frames.END_STREAM)
        self.on_data_frame(id, length)
        if not self._data_left:
            self.on_data(b"", self._data_end)
        return begin

    def _process_data(self, data: bytes, position: int, size: int) -> int:
        """Process the available part of the current DATA frame, and return its end position."""
        if (left := self._data_left) and position < size:
            end = min(position + left, size)
            self._data_left = left = left - (end - position)
            if end - position < max(WORTH_A_VIEW, size // 2):
                self.on_data(data[position:end], self._data_end and not left)
            else:
                self.on_data(memoryview(data)[position:end], self._data_end and not left)
            position = end
        if not self._data_left and self._padding_left:
            end = min(position + self._padding_left, size)
            self._padding_left -= end - position
            position = end
        return position

    def _check_length(self, kind: int, length: int) -> None:
        if length > self.limits.max_frame:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is larger than MAX_FRAME_SIZE")
        if length > MAX_BLOCK_SIZE:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a frame without data is too large")

    def _process_frame(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        if self._block is not None and (kind != frames.CONTINUATION or id != self._block_stream):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "another frame interrupts a header block")
        if kind == frames.HEADERS and self._configured:
            self._process_headers(flags, id, payload)
        elif kind == frames.CONTINUATION:
            self._process_continuation(flags, payload)
        elif self._configured or (kind == frames.SETTINGS and not flags & frames.ACK):
            self._configured = True
            self.on_frame(kind, flags, id, payload)
        else:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")

    def _process_headers(self, flags: int, id: int, payload: bytes) -> None:
        begin, padding = 0, 0
        if flags & (frames.PADDED | frames.WITH_PRIORITY):
            if flags & frames.PADDED:
                begin, padding = 1, payload[0] if payload else 0
            if flags & frames.WITH_PRIORITY:
                if int.from_bytes(payload[begin : begin + 4], "big") & frames.LAST_STREAM == id:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
                begin += 5
            if begin + padding > len(payload):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the padding is longer than its frame")
            payload = payload[begin : len(payload) - padding]
        if flags & frames.END_HEADERS:
            self.on_headers(id, payload, bool(flags & frames.END_STREAM))
        else:
            self._block, self._block_stream, self._block_end = [payload], id, bool(flags & frames.END_STREAM)

    def _process_continuation(self, flags: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION continues nothing")
        block.append(payload)
        if len(block) > MAX_CONTINUATIONS or sum(map(len, block)) > MAX_BLOCK_SIZE:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large")
        if flags & frames.END_HEADERS:
            self._block = None
            self.on_headers(self._block_stream, b"".join(block), self._block_end)
