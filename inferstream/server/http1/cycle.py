"""An HTTP/1 request that an ASGI application serves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from ..connections import SCOPE_KEY, OwnConnection, strip_slashes
from .exchange import Connected, Http1Response, check_headers
from .heads import INVALID, RawHeaders, RequestHead, RequestRefused

logger = logging.getLogger("inferstream.http1")

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

UNREAD = 64 * 1024
"""Reading pauses if more than this many bytes of a body wait for the application."""

FAILED = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", b"21"),
    (b"connection", b"close"),
)


class ScopeHead(Protocol):
    """The part of a request head that an ASGI scope contains."""

    method: bytes
    version: str
    target: bytes
    headers: RawHeaders


def build_scope(connection: OwnConnection, head: ScopeHead) -> Message:
    """Build the ASGI scope of a request. Raises RequestRefused if the target is not a URL."""
    try:
        url = httptools.parse_url(head.target)
        raw_path = url.path or b"/"  # the target may be absolute, for example http://host
        path = raw_path.decode("ascii")
    except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
        raise RequestRefused(400, INVALID) from None
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": head.version,
        "server": connection.server,
        "client": connection.client,
        "scheme": connection.scheme,
        "method": head.method.decode("ascii"),
        "root_path": "",
        "path": strip_slashes(unquote(path) if "%" in path else path),
        "raw_path": raw_path,
        "query_string": url.query or b"",
        "headers": head.headers,
        "state": {},
        SCOPE_KEY: connection,
    }


class Cycle(Http1Response):
    """One request and its response as ASGI messages.

    The application runs while the body is received.
    """

    __slots__ = (
        "_arrived",
        "_expects",
        "_head",
        "_headless",
        "_left",
        "_more",
        "_pieces",
        "_size",
    )

    def __init__(self, connection: Connected, head: RequestHead, keep_alive: bool) -> None:
        super().__init__(connection, head, keep_alive)
        self._headless = head.method == b"HEAD"
        self._expects = head.expects
        self._pieces: list[bytes] = []
        self._size = 0
        self._more = True
        self._arrived = asyncio.Event()
        self._left: int | None = None
        """Bytes of the body still to send according to `Content-Length`, or None without that header."""

    def take(self, piece: bytes) -> None:
        if self.complete:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > UNREAD:
            self.connection.reading.hold(self)
        self._arrived.set()

    def end(self) -> None:
        self._more = False
        self._arrived.set()

    def lose(self) -> None:
        self._arrived.set()

    async def run(self, app: App, scope: Message) -> None:
        """Serve the request. If the application fails, respond with status 500."""
        try:
            await app(scope, self.receive, self.send)
            if self.complete or self.connection.lost or self.connection.transport.is_closing():
                return
            logger.error("ASGI application returned without a complete response")
        except Exception:
            logger.exception("ASGI application failed")
        except BaseException:  # cancelled
            if not self.connection.lost:
                self.connection.close()
            raise
        if self.started or self._opening is not None:
            self.connection.close()
        else:
            await self.send({"type": "http.response.start", "status": 500, "headers": FAILED})
            await self.send({"type": "http.response.body", "body": b"Internal Server Error"})

    async def receive(self) -> Message:
        if self._expects and not (self.started or self._opening is not None or self._is_late()):
            self._expects = False
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not (self.connection.lost or self.complete):
            self.connection.reading.release(self)
            await self._arrived.wait()
            self._arrived.clear()
        if self.connection.lost or self.complete:
            return {"type": "http.disconnect"}
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return {"type": "http.request", "body": body, "more_body": self._more}

    def _is_late(self) -> bool:
        """Whether it is too late for an interim response."""
        return self.connection.lost or self.connection.openings.ahead > 0

    async def send(self, message: Message) -> None:
        connection = self.connection
        if connection.blocked and not connection.lost:
            await connection.drain()
        if connection.lost:
            return
        begins = not self.started and self._opening is None
        wanted = "http.response.start" if begins else "http.response.body"
        if self.complete or message["type"] != wanted:
            raise RuntimeError(f"an ASGI message of the type {message['type']!r} came out of turn")
        if begins:
            self._open(message["status"], check_headers(message.get("headers", ())))
            connection.loop.call_soon(self._flush)  # the first part of the body may take long
        else:
            self._send_body(message.get("body", b""), message.get("more_body", False))

    def _open(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if self._expects or not self.connection.ends_soon:
            self.keep_alive = False  # the rest of the body is not a request
        headers = [pair for pair in headers if pair[0] != b"transfer-encoding"]  # required by ASGI
        parts = self._begin(status, headers)
        lengths = [value for name, value in headers if name == b"content-length"]
        bodiless = self._headless or status in (204, 304)
        if bodiless or lengths:
            self._chunked = False
            self._left = 0 if bodiless else int(lengths[0])
            self._opening = b"".join((*parts, b"\r\n"))
        else:
            self._opening = self._frame(parts)

    def _send_body(self, body: bytes, more: bool) -> None:
        if self._headless:
            body = b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the body of the response has not the length that it has promised")
        opening, self._opening = self._opening or b"", None
        self._write([opening, *self._frame_chunk(body, not more)], not more)
        if not more:
            self._arrived.set()
            self.connection.reading.release(self)  # the application does not receive the rest of the body

    def _flush(self) -> None:
        if self._opening is not None:
            opening, self._opening = self._opening, None
            self._write([opening], False)
