"""A request over a stream, served by an ASGI application."""

import asyncio
import logging

from ...http1.cycle import FAILED, UNREAD, App, Message
from ...http1.exchange import Openings, checked
from ...http1.guard import LINGER_BYTES
from ...http2.stream import Stream
from ..messages import RawHeaders
from .request import Http2Head, Http2Request

logger = logging.getLogger("inferstream.rest")

_OF_HTTP1 = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"))
"""Headers that HTTP/2 forbids (RFC 9113 section 8.2.2)."""


class StreamCycle(Http2Request):
    """One request and its response, as messages. The body is received while the application runs."""

    __slots__ = ("_arrived", "_dropped", "_headless", "_last", "_more", "_opening", "_pieces", "_size")

    def __init__(self, stream: Stream, head: Http2Head, openings: Openings, scheme: str) -> None:
        super().__init__(stream, head, openings, scheme)
        self._headless = head.method == b"HEAD"
        self._pieces: list[bytes] = []
        self._size = 0
        self._more = not stream.remote_ended
        self._arrived = asyncio.Event()
        if not self._more:
            self._arrived.set()
        self._opening: bytes | None = None
        """The head of a response without a body, until the application says so again."""
        self._last: tuple[bytes, bytes] | None = None
        """Trailers and body of a response that is whole before the request is."""
        self._dropped = 0

    # What the stream tells

    def received(self, data: bytes | memoryview, end: bool) -> None:
        self._more = not end
        if self.complete:
            self._drop(len(data))
            return
        counts = self._more or self.connection.request_bytes is not None
        if counts and not self.has_room(len(data)):
            return
        self._pieces.append(bytes(data))
        self._size += len(data)
        if end or self._size > UNREAD:
            self.stream.expecting_since = None  # what is late then is the application
        self._arrived.set()

    def overdue(self) -> None:
        if self._last is not None:
            self.stream.finish(*self._last)
        else:
            super().overdue()

    def lost(self) -> None:
        super().lost()
        self._arrived.set()

    def finish(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Send a whole response, without its body to HEAD."""
        return super().finish(status, headers, b"" if self._headless else body)

    # The application

    async def run(self, app: App, scope: Message) -> None:
        """Serve the request, with status 500 if the application fails."""
        try:
            await app(scope, self.receive, self.send)
            if self.complete or self.connection.lost:
                return
            logger.error("the ASGI application returned without a whole response")
        except Exception:
            logger.exception("the ASGI application failed")
        finally:
            if not (self.complete or self.connection.lost) and self.stream.responded:
                self.connection.abort()
        if not (self.complete or self.connection.lost):
            self.finish(500, [*FAILED[:1]], b"Internal Server Error")

    async def receive(self) -> Message:
        if not (self.connection.lost or self.complete):
            await self._arrived.wait()
            self._arrived.clear()
        if self.connection.lost or self.complete:
            return {"type": "http.disconnect"}
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.stream.consumed(self._size)
        self._size = 0
        self._await_body()
        return {"type": "http.request", "body": body, "more_body": self._more}

    async def send(self, message: Message) -> None:
        if self.connection.lost:
            return
        begins = self._opening is None and not self.stream.responded
        wanted = "http.response.start" if begins else "http.response.body"
        if self.complete or message["type"] != wanted:
            raise RuntimeError(f"an ASGI message of the type {message['type']!r} came out of turn")
        if begins:
            self._open(message["status"], message.get("headers", ()))
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._opening is not None:
            if not more:
                self._end(self._opening, b"")
        elif not more:
            self._end(b"", body)
        else:
            self.stream.send(b"", body)
        await self.stream.sent()

    def _open(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        kept = [pair for pair in checked(headers) if pair[0] not in _OF_HTTP1]
        block = self.block(status, kept)
        if self._headless or status in (204, 304):
            self._opening = block
        else:
            self.stream.open(block)
            if (
                not self._more
            ):  # clients stop sending when they read an early status, and take that for a fault
                # The first part of the body may be long in coming.
                self.stream.connection.loop.call_soon(self.stream.head)

    def _end(self, trailers: bytes, body: bytes) -> None:
        self.complete = True
        self._last = trailers, body
        self._pieces.clear()
        self._await_body()
        self._drop(self._size)
        self._arrived.set()

    def _await_body(self) -> None:
        self.stream.expecting_since = self.stream.connection.clock() if self._more else None
        self.stream.taken = 0

    def _drop(self, size: int) -> None:
        """Drop a part of a body that nobody wants: most clients read no response before they have sent theirs."""
        self._dropped += size
        self.stream.consumed(size)
        if self._last is not None and not (self._more and self._dropped <= LINGER_BYTES):
            self.stream.finish(*self._last)
            self._last = None
