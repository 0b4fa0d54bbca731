"""The received bytes of a connection: a head, its body, the next head, and so on."""

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
"""The maximum size of a cached head in bytes. Most clients repeat their heads."""

SOON = 64 * 1024
"""Bytes of a body that may arrive after its response without closing the connection."""

MAX_CHUNKS = 65_536
"""The maximum number of chunks of a request body."""

AT_ONCE = 4096
"""The maximum number of chunks that are parsed before other tasks run. They take about 10 ms."""

MAX_LINE_LENGTH = 4096
"""The maximum length of the line before a chunk, including extensions, in bytes."""

_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")
_TRAILER = re.compile(rb"[\w!#$%&'*+.^`|~-]+:[\t -~\x80-\xff]*", re.ASCII)

TOO_MANY = "The body comes in too many pieces."


class ChunkedBody:
    """A chunked body, parsed as it arrives (RFC 9112, section 7.1).

    Trailers are validated and discarded, because they must not become headers (RFC 9110).
    """

    __slots__ = ("_chunks", "_in_trailers", "_left", "_trailer_bytes", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        """Bytes of the current chunk still to arrive, including its line end. 0 between chunks."""
        self._chunks = 0
        self._in_trailers = False
        self._trailer_bytes = 0

    def take(self, unread: bytearray) -> list[bytes]:
        """Consume and return up to `AT_ONCE` pieces of body data.

        Raises RequestRefused.
        """
        pieces: list[bytes] = []
        while unread and len(pieces) < AT_ONCE and not self.ended:
            if self._left:
                if not self._take_data(unread, pieces):
                    break
            elif (line := self._take_line(unread)) is None:
                break
            elif self._in_trailers:
                self.ended = not line
                if line and _TRAILER.fullmatch(line) is None:
                    raise RequestRefused(400, INVALID)
            else:
                self._begin_chunk(line)
        return pieces

    def _take_data(self, unread: bytearray, pieces: list[bytes]) -> bool:
        """Remove chunk data and the line end after it. Returns False if the line end is missing."""
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

    def _take_line(self, unread: bytearray) -> bytes | None:
        """Remove and return the next line, or None if it is incomplete."""
        most = MAX_HEADER_BYTES - self._trailer_bytes if self._in_trailers else MAX_LINE_LENGTH
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
    """The received, unparsed bytes, and the position in the current request."""

    __slots__ = ("_chunks", "_left", "_raw", "kept", "received", "unread")

    def __init__(self) -> None:
        self.unread = bytearray()
        self.received = 0
        """Received bytes of the current body."""
        self.kept: RequestHead | None = None
        """The cached head, which the client may repeat."""
        self._raw = b""
        """The bytes of the cached head."""
        self._left = 0
        """Bytes still to arrive of a body with a known length."""
        self._chunks: ChunkedBody | None = None

    @property
    def in_body(self) -> bool:
        """Whether a body is incomplete."""
        return self._left > 0 or self._chunks is not None

    @property
    def ends_soon(self) -> bool:
        """Whether the rest of the body is small."""
        return self._chunks is None and self._left <= SOON

    def match_known(self, data: bytes) -> bytes | None:
        """Return the body if `data` is a complete request with the cached head, else None.

        Also returns None if unparsed bytes precede `data`.
        """
        if (
            self.kept is not None
            and len(data) == len(self._raw) + self.kept.length
            and data.startswith(self._raw)
            and not self.unread
        ):
            return data[len(self._raw) :]
        return None

    def take_head(self) -> tuple[RequestHead, bytes] | None:
        """Remove and return the next head and its bytes, or None if it is incomplete.

        Raises RequestRefused.
        """
        unread = self.unread
        while unread.startswith(b"\r\n"):  # clients may send empty lines after a body
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
        """Cache a head, unless it is too long."""
        if len(raw) <= KEPT_BYTES:
            self.kept, self._raw = head, raw

    def expect(self, head: RequestHead) -> None:
        """Prepare to receive the body of a request."""
        self.received = 0
        self._left = head.length
        self._chunks = ChunkedBody() if head.chunked else None

    def count_part(self, data: bytes) -> bool:
        """Count `data` and return True if it is part of a body but not its end.

        The caller can then use `data` without a copy.
        """
        if len(data) >= self._left or self.unread:
            return False
        self.received += len(data)
        self._left -= len(data)
        return True

    def take_body(self) -> list[bytes]:
        """Remove and return the available part of the body. Raises RequestRefused."""
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
        """Discard the received bytes, and stop expecting a body."""
        self.unread.clear()
        self._left, self._chunks = 0, None
