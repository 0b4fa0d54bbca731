"""HTTP as uvicorn cannot see it from an application: limits, receive deadlines, and clients that leave."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ...dataplane.interruption import Interruption

MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
MAX_CHUNKS = 65_536
"""Pieces of one request body; a peer that sends more, smaller ones is not sending a request."""

SLOWEST_BYTES_PER_SECOND = 16 * 1024
"""A body may take its timeout plus its size at this rate, so that large uploads over slow lines pass."""


class Connection(HttpToolsProtocol):
    """One HTTP connection.

    An application puts its task into `task`; when the client leaves, that task is cancelled, which no
    ASGI application can learn on its own without a second task per request.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.task: asyncio.Task[Any] | None = None
        self.lost = False
        self._header_count = 0
        self._header_bytes = 0
        self._chunks = 0
        self._received = 0
        self._receiving_since: float | None = None
        self._in_body = False
        self._refused = False
        self._max_connections = cast(Limits, self.config.app).max_connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._receiving_since = time.monotonic()
        if len(self.connections) > self._max_connections:
            self._refuse(503, "Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        super().connection_lost(exc)
        if self.task is not None:
            Interruption(self.task, lambda: self.task is not None)

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_count = self._header_bytes = self._chunks = self._received = 0
        self._in_body = False
        if self._receiving_since is None:
            self._receiving_since = time.monotonic()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES or self._header_count > MAX_HEADERS:
            self._refuse(431, "The request's headers are too large.")
        if not self._refused:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._refused:
            self._in_body = True
            self._receiving_since = time.monotonic()
            super().on_headers_complete()
            # The application's task has been made, and runs only after this.
            self.scope[SCOPE_KEY] = Exchange(self, self.cycle)  # type: ignore[literal-required]  # an extension

    def on_body(self, body: bytes) -> None:
        self._chunks += 1
        self._received += len(body)
        if self._chunks > MAX_CHUNKS:
            self._refuse(400, "The body comes in too many pieces.")
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._receiving_since = None
        if not self._refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self._receiving_since is not None:
            # Answered before the body was read: what still comes belongs to no request.
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._refuse(400, "The connection is still busy with another request.")
        if not self._refused:
            super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def overdue(self, now: float, header_timeout: float, body_timeout: float) -> bool:
        """Whether the client has taken too long to send its request."""
        if self._receiving_since is None:
            return False
        waited = now - self._receiving_since
        if not self._in_body:
            return waited > header_timeout
        return waited > body_timeout + self._received / SLOWEST_BYTES_PER_SECOND

    def time_out(self) -> None:
        """Answer 408 if nothing has been answered, and close; a connection nothing came over just closes."""
        if not self._header_bytes:
            self.transport.close()
        elif self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self._refuse(408, "The request was not received in time.")
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        body = b'{"error":"%s"}' % message.encode()
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
            % (status, _PHRASES[status], len(body), body)
        )
        self.transport.close()


class Exchange:
    """One request of a connection, and its answer. Applications find it in the scope under `SCOPE_KEY`.

    Its two methods are shorter ways than ASGI's, for requests and answers that are small; a connection
    cannot offer them, because with pipelined requests it does not know which of them is meant.
    """

    __slots__ = ("_cycle", "connection")

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self.connection = connection
        self._cycle = cycle

    def body(self) -> bytes | None:
        """The body, if all of it is there already; None where the ASGI way has to be taken."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        cycle.flow.resume_reading()
        body, cycle.body = cycle.body, bytearray()
        return bytes(body)

    def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole answer in one system call; False where the ASGI way has to be taken.

        ASGI's two messages are two writes, and a write costs as much as the rest of a small request.
        """
        cycle = self._cycle
        if cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
            return False
        lines = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            lines += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        lines += (b"content-length: %d\r\n\r\n" % len(body), body)
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(b"".join(lines))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True


SCOPE_KEY = "inferstream.exchange"

_PHRASES = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Limits:
    """What the protocol needs to know; the application uvicorn serves carries it."""

    max_connections: int


async def close_overdue(connections: Iterable[Any], header_timeout: float, body_timeout: float) -> None:
    """Every second, close the connections whose request is overdue: no timer per request is needed."""
    while True:
        await asyncio.sleep(1)
        now = time.monotonic()
        for connection in list(connections):
            if isinstance(connection, Connection) and connection.overdue(now, header_timeout, body_timeout):
                connection.time_out()
