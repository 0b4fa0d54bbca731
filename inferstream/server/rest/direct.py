"""An inference request over a connection of ours, without ASGI."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ..connections import address
from ..request_ids import HEADER
from .dialects.base import Route
from .exchange import CLOSE
from .messages import ClientLeft, Head, RawHeaders


class _UnusedEvent:
    """Replaces uvicorn's event: no task waits for a message, because the request is complete."""

    def set(self) -> None:
        """Do nothing."""


class DirectExchange:
    """An exchange without ASGI: each response, or chunk of one, is one write.

    It replaces uvicorn's cycle, scope and messages, which cost 30 µs of a small request's 136. uvicorn's protocol
    class uses its fields without an underscore as those of a cycle.
    """

    __slots__ = (
        "_opening",
        "_pieces",
        "connection",
        "disconnected",
        "head",
        "headers",
        "keep_alive",
        "request_id",
        "response_complete",
        "response_started",
        "route",
        "task",
    )

    message_event = _UnusedEvent()
    """One for all exchanges: an exchange with a reference to itself would wait for the garbage collector."""

    def __init__(
        self, connection: Any, route: Route, headers: RawHeaders, head: Head, keep_alive: bool
    ) -> None:
        self.connection = connection
        self.route = route
        self.headers = headers
        self.head = head
        self.task: asyncio.Task[Any] | None = None
        self.request_id: bytes | None = None
        """The X-Request-Id of the response; None for none."""
        self.keep_alive = keep_alive
        self.response_started = self.response_complete = self.disconnected = False
        self._pieces: list[bytes] = []
        self._opening = b""

    @property
    def scheme(self) -> str:
        return str(self.connection.scheme)

    @property
    def left(self) -> bool:
        return bool(self.connection.lost)

    @property
    def peer(self) -> str:
        return address(self.connection.client)

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(self.connection.identities)

    def take(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def body(self, limit: int) -> bytes:
        if self.disconnected:
            raise ClientLeft
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None] | None:
        if CLOSE in headers:
            self.keep_alive = False
        parts = self._begin(status, headers)
        parts += (b"content-length: %d\r\n\r\n" % len(body), body)
        return self._send(parts, True)

    def respond_nothing(self) -> Awaitable[None] | None:
        return self._send([*self._begin(204, []), b"\r\n"], True)

    def open(self, headers: RawHeaders) -> None:
        self._opening = b"".join((*self._begin(200, headers), b"transfer-encoding: chunked\r\n\r\n"))

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        connection = self.connection
        if chunk and self.response_started and not (last or connection.flow.write_paused or connection.lost):
            # Of a token that leaves alone, this is the whole way to the system call.
            connection.transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            return None
        opening, self._opening = self._opening, b""
        parts = [opening, b"%x\r\n" % len(chunk), chunk, b"\r\n"] if chunk else [opening]
        if last:
            parts.append(b"0\r\n\r\n")
        return self._send(parts, last)

    def _begin(self, status: int, headers: RawHeaders) -> list[bytes]:
        connection = self.connection
        head_parts = [connection.served.openings.of(status, connection.server_state.default_headers)]
        if self.request_id is not None:
            headers = [*(pair for pair in headers if pair[0] != HEADER), (HEADER, self.request_id)]
        for name, value in headers:
            head_parts += (name, b": ", value, b"\r\n")
        if not self.keep_alive and CLOSE not in headers:
            head_parts.append(b"connection: close\r\n")
        return head_parts

    def _send(self, parts: list[bytes], last: bool) -> Awaitable[None] | None:
        if self.connection.flow.write_paused and not self.disconnected:
            return self._write_when_drained(parts, last)
        # Without a coroutine, because most chunks are written at once, and each token is a chunk.
        self._write(parts, last)
        return None

    async def _write_when_drained(self, parts: list[bytes], last: bool) -> None:
        await self.connection.flow.drain()
        self._write(parts, last)

    def _write(self, parts: list[bytes], last: bool) -> None:
        if self.disconnected:
            return
        connection = self.connection
        self.response_started = True
        connection.transport.write(b"".join(parts))
        if last:
            self.response_complete = True
            if not self.keep_alive:
                connection.transport.close()
            connection.on_response_complete()

    def abort(self) -> None:
        self.connection.transport.abort()


class Openings:
    """The status line and default headers of responses, joined again when the date changes."""

    def __init__(self) -> None:
        self._headers: RawHeaders = []
        self._joined: dict[int, bytes] = {}

    def of(self, status: int, headers: RawHeaders) -> bytes:
        """The beginning of a response; `headers` is a new list after each change."""
        if headers is not self._headers:
            self._headers, self._joined = headers, {}
        joined = self._joined.get(status)
        if joined is None:
            head_parts = [name + b": " + value + b"\r\n" for name, value in headers]
            joined = self._joined[status] = b"".join((STATUS_LINE[status], *head_parts))
        return joined
