"""What a connection receives, in turn: the head of a request, its body, the next head."""

from .bodies import ChunkedBody
from .heads import END, MAX_HEADER_BYTES, RequestHead, check_beginning, parse_head

KEPT_BYTES = 4096
"""The longest head that is kept, because most clients repeat theirs."""

SOON = 64 * 1024
"""Bytes of a body that may come behind its response, and other requests then."""


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
