"""Messages of RPCs on the wire: a prefix of five bytes, and the message itself, compressed or not."""

from collections import deque
from struct import Struct
from typing import cast

import numpy as np

from ...errors import InvalidRequest, Unsupported
from ..compression import DEFLATE, GZIP, deflate, inflate, too_large

ACCEPTED = b"identity, deflate, gzip"
"""The value of `grpc-accept-encoding` in responses."""

IDENTITY = b"identity"

PREFIX = Struct(">BL")
"""Flags, of which 1 means compressed, and the length of the message."""

COMPRESSED = 1

WORTH_A_VIEW = 64 * 1024
"""Bytes of a message above which a view costs less than a copy."""

WORTH_ROOM = 1024 * 1024
"""Bytes of a message that is put together as it arrives, so that it and its pieces are not kept at once."""

AHEAD = 16
"""Times the bytes that have arrived of such a message for which there is room: a prefix alone takes no memory."""

SMALL_PIECE = 1024
"""Bytes of a piece that is joined with the one before it."""


class MessageBuffer:
    """Takes the bytes of one direction of a call as they arrive, and gives the messages.

    A message above `limit` bytes is refused when its prefix has arrived, before its content. The error names the
    setting of the limit.
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
        """Where in the first piece the next byte is."""
        self._length = -1
        """Bytes of the message after its prefix has been taken, else -1."""
        self._whole: memoryview | None = None
        """A large message of which the first `_filled` bytes have arrived."""
        self._filled = 0
        self.size = 0
        """Bytes that have been fed and not been taken."""
        self.compressed = False
        """Whether the message that was taken last is compressed."""

    def feed(self, data: bytes | memoryview) -> None:
        if not data:
            return
        self.size += len(data)
        if self._whole is not None and not (data := self._fill(self._whole, data)):
            return
        pieces = self._pieces
        if pieces and len(data) < SMALL_PIECE and len(pieces[-1]) < SMALL_PIECE:
            # An object for each byte would take many times as much.
            pieces[-1] = b"".join((pieces[-1], data))
        else:
            pieces.append(data)

    def _fill(self, whole: memoryview, data: bytes | memoryview) -> bytes | memoryview:
        """Copy what belongs to a large message. What follows it."""
        begin = self._filled
        self._filled = end = min(begin + len(data), len(whole))
        whole[begin:end] = data[: end - begin]
        return data[end - begin :]

    def _make_room(self) -> None:
        """Begin to put the next message together, if it is large and enough of it has arrived."""
        if self._whole is None and WORTH_ROOM <= self._length <= self.size * AHEAD:
            size = self.size
            part = self._cut(size) if size else b""
            self.size = size
            self._whole, self._filled = np.empty(self._length, np.uint8).data, 0
            self._fill(self._whole, part)

    @property
    def expected(self) -> int:
        """Bytes of the message that is arriving; 0 before its prefix is there."""
        return max(self._length, 0)

    def take(self) -> bytes | None:
        """The next message as it was sent, or None if it is not complete. Raises PayloadTooLarge, InvalidRequest."""
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
            raise too_large("message", self._limit, self._setting)
        self.compressed = flags == COMPRESSED
        self._length = length
        return True

    @property
    def between_messages(self) -> bool:
        """Whether the call may end here: no message is incomplete."""
        return self._length < 0 and not self.size

    def _cut(self, length: int) -> bytes:
        """The next `length` bytes, which have arrived; of many in one piece a view, which RPCs take too."""
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
    """Raise Unsupported for a `grpc-encoding` that this server does not read."""
    if encoding not in (IDENTITY, GZIP, DEFLATE):
        name = encoding.decode("latin-1")
        raise Unsupported(f'The grpc-encoding "{name}" is not one of {ACCEPTED.decode()}.')


def decompressed(message: bytes, encoding: bytes, limit: int, setting: str) -> bytes:
    """A message without its compression, of at most `limit` bytes by a setting.

    Raises PayloadTooLarge, InvalidRequest.
    """
    if encoding == IDENTITY:
        raise InvalidRequest("A message is compressed, and the call has no grpc-encoding that says how.")
    return inflate(message, encoding, limit, "message", setting)


def prefixed(message: bytes) -> bytes:
    """A message as it is sent without compression."""
    return PREFIX.pack(0, len(message)) + message


def compressed(message: bytes, encoding: bytes) -> bytes:
    """A message as it is sent in gzip or deflate form."""
    content = deflate(message, encoding)
    return PREFIX.pack(COMPRESSED, len(content)) + content


def accepts(accepted: bytes, encoding: bytes) -> bool:
    """Whether a `grpc-accept-encoding` names an encoding."""
    return any(each.strip() == encoding for each in accepted.split(b","))
