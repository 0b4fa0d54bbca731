"""A chunked body, taken apart as it arrives (RFC 9112 section 7.1)."""

import re

from .heads import INVALID, MAX_HEADER_BYTES, TOO_LARGE, RequestRefused

MAX_CHUNKS = 65_536
"""Pieces of one request body."""

AT_ONCE = 4096
"""Pieces taken before other tasks run; they take some 10 ms."""

LONGEST_LINE = 4096
"""Bytes of the line before a chunk, extensions included."""

_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")
_TRAILER = re.compile(rb"[\w!#$%&'*+.^`|~-]+:[\t -~\x80-\xff]*", re.ASCII)

TOO_MANY = "The body comes in too many pieces."


class ChunkedBody:
    """The state between two reads. Trailers are checked and dropped: they must not become headers (RFC 9110)."""

    __slots__ = ("_chunks", "_in_trailers", "_left", "_trailer_bytes", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        """Bytes of this chunk that have not come, with its line end; 0 before a line."""
        self._chunks = 0
        self._in_trailers = False
        self._trailer_bytes = 0

    def take(self, unread: bytearray) -> list[bytes]:
        """Take from the front of `unread` what is complete, up to `AT_ONCE` pieces. Raises RequestRefused."""
        pieces: list[bytes] = []
        while unread and len(pieces) < AT_ONCE and not self.ended:
            if self._left:
                if not self._take_data(unread, pieces):
                    break
            elif (line := self._line(unread)) is None:
                break
            elif self._in_trailers:
                self.ended = not line
                if line and _TRAILER.fullmatch(line) is None:
                    raise RequestRefused(400, INVALID)
            else:
                self._begin_chunk(line)
        return pieces

    def _take_data(self, unread: bytearray, pieces: list[bytes]) -> bool:
        """Take data of a chunk, and the line end behind it; False if that has not come."""
        if self._left > 2:
            piece = bytes(memoryview(unread)[: self._left - 2])
            pieces.append(piece)
            del unread[: len(piece)]
            self._left -= len(piece)
        if self._left > 2 or len(unread) < 2:
            return False
        if unread[:2] != b"\r\n":
            raise RequestRefused(400, INVALID)
        del unread[:2]
        self._left = 0
        return True

    def _line(self, unread: bytearray) -> bytes | None:
        """The next line; None if it is not whole."""
        most = MAX_HEADER_BYTES - self._trailer_bytes if self._in_trailers else LONGEST_LINE
        end = unread.find(b"\r\n", 0, most)
        if end < 0:
            if len(unread) >= most:
                raise RequestRefused(431, TOO_LARGE) if self._in_trailers else RequestRefused(400, INVALID)
            return None
        line = bytes(memoryview(unread)[:end])
        del unread[: end + 2]
        if self._in_trailers:
            self._trailer_bytes += end + 2
        return line

    def _begin_chunk(self, line: bytes) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            raise RequestRefused(400, INVALID)
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            raise RequestRefused(400, TOO_MANY)
        size = int(match[1], 16)
        if size:
            self._left = size + 2
        else:
            self._in_trailers = True
