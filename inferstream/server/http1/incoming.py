"""Bytes that a connection receives, in turn: the head of a request, its body, the next head."""

import re

from .heads import (
    END,
    INVALID,
    MAX_HEADER_BYTES,
    TOO_LARGE,
    RequestHead,
    RequestRefused,
    check_beginning,
    parse_head,
)

KEPT_BYTES = 4096
"""The longest head that is kept, because most clients repeat theirs."""

SOON = 64 * 1024
"""Bytes of a body that may come behind its response, and other requests then."""

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
    """A chunked body, taken apart as it arrives (RFC 9112 section 7.1).

    Trailers are checked and dropped: they must not become headers (RFC 9110).
    """

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


class IncomingBytes:
    """The bytes that were received and have not been taken, and where in a request they are."""

    __slots__ = ("_chunks", "_left", "_raw", "kept", "received", "unread")

    def __init__(self) -> None:
        self.unread = bytearray()
        self.received = 0
        """Bytes of this body."""
        self.kept: RequestHead | None = None
        """A head that may come again."""
        self._raw = b""
        """The bytes of that head."""
        self._left = 0
        """Bytes of a body of known length that have not come."""
        self._chunks: ChunkedBody | None = None

    @property
    def in_body(self) -> bool:
        """Whether a body has not come completely."""
        return self._left > 0 or self._chunks is not None

    @property
    def ends_soon(self) -> bool:
        """Whether little of this body is left."""
        return self._chunks is None and self._left <= SOON

    def again(self, data: bytes) -> bytes | None:
        """The body, if `data` is a whole request with the head that is kept and nothing precedes it; else None."""
        if (
            self.kept is not None
            and len(data) == len(self._raw) + self.kept.length
            and data.startswith(self._raw)
            and not self.unread
        ):
            return data[len(self._raw) :]
        return None

    def head(self) -> tuple[RequestHead, bytes] | None:
        """Take the next head, also as it came; None if it is not whole. Raises RequestRefused."""
        unread = self.unread
        while unread.startswith(b"\r\n"):  # a client may send these behind a body
            del unread[:2]
        end = unread.find(END, 0, MAX_HEADER_BYTES)
        if end < 0:
            if unread and unread != b"\r":
                check_beginning(bytes(unread))
            return None
        raw = bytes(memoryview(unread)[: end + len(END)])
        head = parse_head(raw) if self.kept is None or raw != self._raw else self.kept
        del unread[: len(raw)]
        return head, raw

    def keep(self, head: RequestHead, raw: bytes) -> None:
        """Know this head when it comes again, if it is not too long for that."""
        if len(raw) <= KEPT_BYTES:
            self.kept, self._raw = head, raw

    def expect(self, head: RequestHead) -> None:
        """Take the body of a request next."""
        self.received = 0
        self._left = head.length
        self._chunks = ChunkedBody() if head.chunked else None

    def part(self, data: bytes) -> bool:
        """Whether `data` is a part of a body, without its end, and needs no copy. It is taken then."""
        if len(data) >= self._left or self.unread:
            return False
        self.received += len(data)
        self._left -= len(data)
        return True

    def body(self) -> list[bytes]:
        """Take what there is of the body. Raises RequestRefused."""
        unread = self.unread
        if self._chunks is None:
            pieces = [bytes(memoryview(unread)[: self._left])]
            del unread[: len(pieces[0])]
            self._left -= len(pieces[0])
        else:
            pieces = self._chunks.take(unread)
            if self._chunks.ended:
                self._chunks = None
        self.received += sum(map(len, pieces))
        return pieces

    def drop(self) -> None:
        """Forget what was received, and expect no body."""
        self.unread.clear()
        self._left, self._chunks = 0, None
