"""RPC messages on the wire: a five-byte prefix, followed by the message, compressed or not."""

from collections import deque
from struct import Struct
from typing import cast

import numpy as np

from ...errors import InvalidRequest, Unsupported
from ..compression import DEFLATE, GZIP, build_size_error, deflate, inflate

ACCEPTED = b"identity, deflate, gzip"
"""The value of `grpc-accept-encoding` in responses."""

IDENTITY = b"identity"

PREFIX = Struct(">BL")
"""The flags (1 means compressed) and the length of the message."""

COMPRESSED = 1

WORTH_A_VIEW = 64 * 1024
"""Message size in bytes above which a view is cheaper than a copy."""

WORTH_ROOM = 1024 * 1024
"""Minimum size in bytes of a message that is assembled in one buffer as it arrives.

Otherwise, the message and its pieces would be in memory at the same time.
"""

AHEAD = 16
"""The buffer of a large message is allocated once 1/16 of it has arrived, so a prefix allocates nothing."""

SMALL_PIECE = 1024
"""Pieces smaller than this are joined with the previous piece."""


class MessageBuffer:
    """Splits the bytes of one direction of a call into messages.

    A message above `limit` bytes is rejected as soon as its prefix has arrived. The error names the `setting`
    that sets the limit.
    """

    __slots__ = (
        "_filled",
        "_length",
        "_limit",
        "_pieces",
        "_setting",
        "_start",
        "_whole",
        "compressed",
        "size",
    )

    def __init__(self, limit: int, setting: str) -> None:
        self._limit = limit
        self._setting = setting
        self._pieces: deque[bytes | memoryview] = deque()
        self._start = 0
        """Offset of the next byte in the first piece."""
        self._length = -1
        """Length of the current message in bytes, or -1 before its prefix has been parsed."""
        self._whole: memoryview | None = None
        """The buffer of a large message. The first `_filled` bytes have arrived."""
        self._filled = 0
        self.size = 0
        """Bytes that have been appended but not taken."""
        self.compressed = False
        """Whether the last message that was taken is compressed."""

    def append(self, data: bytes | memoryview) -> None:
        if not data:
            return
        self.size += len(data)
        if self._whole is not None and not (data := self._fill(self._whole, data)):
            return
        pieces = self._pieces
        if pieces and len(data) < SMALL_PIECE and len(pieces[-1]) < SMALL_PIECE:
            # One object per byte would take many times as much memory.
            pieces[-1] = b"".join((pieces[-1], data))
        else:
            pieces.append(data)

    def _fill(self, whole: memoryview, data: bytes | memoryview) -> bytes | memoryview:
        """Copy data into the buffer of a large message. Returns the remaining data."""
        begin = self._filled
        self._filled = end = min(begin + len(data), len(whole))
        whole[begin:end] = data[: end - begin]
        return data[end - begin :]

    def _make_room(self) -> None:
        """Allocate the buffer of the next message, if it is large and enough of it has arrived."""
        if self._whole is None and WORTH_ROOM <= self._length <= self.size * AHEAD:
            size = self.size
            part = self._cut(size) if size else b""
            self.size = size
            self._whole, self._filled = np.empty(self._length, np.uint8).data, 0
            self._fill(self._whole, part)

    @property
    def expected(self) -> int:
        """Length of the arriving message in bytes, or 0 before its prefix has arrived."""
        return max(self._length, 0)

    def take(self) -> bytes | None:
        """Remove and return the next message as it was sent, or None if it is incomplete.

        Raises PayloadTooLarge or InvalidRequest.
        """
        if self._length < 0 and not self._take_prefix():
            return None
        length = self._length
        if self.size < length:
            self._make_room()
            return None
        self._length = -1
        if self._whole is not None:
            whole, self._whole = self._whole, None
            self.size -= length
            return cast(bytes, whole.toreadonly())
        return self._cut(length) if length else b""

    def _take_prefix(self) -> bool:
        size = PREFIX.size
        if self.size < size:
            return False
        first, start = self._pieces[0], self._start
        if start + size < len(first):
            flags, length = PREFIX.unpack_from(first, start)
            self._start = start + size
            self.size -= size
        else:
            flags, length = PREFIX.unpack(self._cut(size))
        if flags > COMPRESSED:
            raise InvalidRequest(f"The flags of a message are {flags}, neither 0 nor 1.")
        if length > self._limit:
            raise build_size_error("message", self._limit, self._setting)
        self.compressed = flags == COMPRESSED
        self._length = length
        return True

    @property
    def between_messages(self) -> bool:
        """Whether no partial message has been received, so that the call may end here."""
        return self._length < 0 and not self.size

    def _cut(self, length: int) -> bytes:
        """Remove and return the next `length` bytes, which must have arrived. Large slices are views."""
        self.size -= length
        pieces, start = self._pieces, self._start
        first, end = pieces[0], start + length
        if end <= len(first):
            if end == len(first):
                pieces.popleft()
                self._start = 0
            else:
                self._start = end
            if length < WORTH_A_VIEW:
                return bytes(first[start:end])
            return cast(bytes, memoryview(first)[start:end])
        parts: list[bytes | memoryview] = [memoryview(first)[start:]]
        pieces.popleft()
        missing = end - len(first)
        while missing >= len(pieces[0]):
            parts.append(pieces.popleft())
            missing -= len(parts[-1])
            if not missing:
                break
        if missing:
            parts.append(memoryview(pieces[0])[:missing])
        self._start = missing
        return b"".join(parts)


def check_encoding(encoding: bytes) -> None:
    """Raise Unsupported if the server does not support a `grpc-encoding`."""
    if encoding not in (IDENTITY, GZIP, DEFLATE):
        name = encoding.decode("latin-1")
        raise Unsupported(f'The grpc-encoding "{name}" is not one of {ACCEPTED.decode()}.')


def decompress(message: bytes, encoding: bytes, limit: int, setting: str) -> bytes:
    """Decompress a message to at most `limit` bytes, the value of `setting`.

    Raises PayloadTooLarge or InvalidRequest.
    """
    if encoding == IDENTITY:
        raise InvalidRequest("A message is compressed, and the call has no grpc-encoding that says how.")
    return inflate(message, encoding, limit, "message", setting)


def add_prefix(message: bytes) -> bytes:
    """Return an uncompressed message with its prefix."""
    return PREFIX.pack(0, len(message)) + message


def compress(message: bytes, encoding: bytes) -> bytes:
    """Return a message, compressed with gzip or deflate, with its prefix."""
    content = deflate(message, encoding)
    return PREFIX.pack(COMPRESSED, len(content)) + content


def accepts(accepted: bytes, encoding: bytes) -> bool:
    """Whether a `grpc-accept-encoding` includes an encoding."""
    return any(each.strip() == encoding for each in accepted.split(b","))
