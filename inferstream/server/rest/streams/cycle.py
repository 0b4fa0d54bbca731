"""An HTTP/2 request that an ASGI application serves."""

import asyncio
import logging

from ...http1.cycle import FAILED, UNREAD, App, Message
from ...http1.exchange import Openings, check_headers
from ...http1.guard import LINGER_BYTES
from ...http2.stream import Stream
from ..messages import RawHeaders
from .request import Http2Head, Http2Request

logger = logging.getLogger("inferstream.rest")

_OF_HTTP1 = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"))
"""Headers that HTTP/2 forbids (RFC 9113 section 8.2.2)."""


class StreamCycle(Http2Request):
    """One HTTP/2 request and its response as ASGI messages.

    The body is received while the application runs.
    """

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
        """The head of a response without a body, until the application completes the response."""
        self._last: tuple[bytes, bytes] | None = None
        """Trailers and body of a response that is complete before the request body."""
        self._dropped = 0

    # Events of the stream

    def receive_data(self, data: bytes | memoryview, end: bool) -> None:
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
            self.stream.expecting_since = None  # from now on, any delay is caused by the application
        self._arrived.set()

    def time_out(self) -> None:
        if self._last is not None:
            self.stream.finish(*self._last)
        else:
            super().time_out()

    def lost(self) -> None:
        super().lost()
        self._arrived.set()

    def finish(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Send a complete response, without the body if the method is HEAD."""
        return super().finish(status, headers, b"" if self._headless else body)

    # The application

    async def run(self, app: App, scope: Message) -> None:
        """Run the application. If it fails, send status 500."""
        try:
            await app(scope, self.receive, self.send)
            if self.complete or self.connection.lost:
                return
            logger.error("ASGI application returned without a complete response")
        except Exception:
            logger.exception("ASGI application failed")
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
        self.stream.return_credit(self._size)
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
        await self.stream.drain()

    def _open(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        kept = [pair for pair in check_headers(headers) if pair[0] not in _OF_HTTP1]
        block = self.encode_head(status, kept)
        if self._headless or status in (204, 304):
            self._opening = block
        else:
            self.stream.open(block)
            # An early status would make clients stop sending and report an error.
            if not self._more:
                # Send the head now, because the first part of the body may take long.
                self.stream.connection.loop.call_soon(self.stream.send_head)

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
        """Discard a part of the request body, because most clients send all of it before they read."""
        self._dropped += size
        self.stream.return_credit(size)
        if self._last is not None and not (self._more and self._dropped <= LINGER_BYTES):
            self.stream.finish(*self._last)
            self._last = None
