"""HTTP connections under uvicorn, with limits, receive deadlines, cancellation and a short path for inferences."""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ...concurrency.interruption import Interruption
from ...settings import Settings
from ..connections import SCOPE_KEY
from ..request_ids import enter
from ..tls import identities
from .app import RestApp
from .direct import DirectExchange, Openings
from .messages import Head, RawHeaders

logger = logging.getLogger("inferstream.rest")

MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
TOO_LARGE = "The request's headers are too large."
MAX_CHUNKS = 65_536
"""Pieces of one request body."""

SLOWEST_BYTES_PER_SECOND = 16 * 1024
"""A body may take its timeout plus its size at this rate, so that large uploads over slow connections succeed."""

KEEP_ALIVE = 75
"""Seconds an idle connection stays open; longer than proxies keep theirs, so that the proxies close first."""

DIRECT_BYTES = 4 * 2**20
"""The largest body without ASGI: the collection of 16 MB takes three times as long as in uvicorn's cycle."""


class DirectApp:
    """The REST application for our own connections, with a short path to the inference routes."""

    def __init__(self, rest: RestApp, settings: Settings) -> None:
        self.entry = rest.entry
        self.websocket = rest.websocket
        self.infer = rest.infer
        self.route_of_target = rest.routes.of_target
        self.max_connections = settings.max_connections
        self.direct_bytes = None if settings.cors_settings else min(settings.max_body_bytes, DIRECT_BYTES)
        """The largest body of a request without ASGI; None if middleware changes the responses."""
        self.openings = Openings()
        self.request_ids = rest.request_ids


class Connection(HttpToolsProtocol):
    """One HTTP connection.

    It serves an inference request directly when the whole body has arrived; uvicorn serves all others. An inference
    `hold`s its connection, which cancels the inference's task when the client leaves. An ASGI application needs a
    second task per request for that.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lost = False
        self.served = cast(DirectApp, self.config.app)
        self._task: asyncio.Task[Any] | None = None
        self._direct: DirectExchange | None = None
        self._head: Head | None = None
        self._headers_of_head: RawHeaders = []
        self._header_bytes = 0
        self._chunks = 0
        self._received = 0
        self._receiving_since: float | None = None
        self._idle_since: float | None = None
        self._in_body = False
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._receiving_since = time.monotonic()
        if len(self.connections) > self.served.max_connections:
            self._refuse(503, "Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        super().connection_lost(exc)
        self._let_go()
        if (task := self._task) is not None:
            Interruption(task, lambda: self._task is task)

    def _let_go(self) -> None:
        """Drop what refers to this connection, so that the end of it is no work for the garbage collector."""
        self.cycle = self.scope = self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def on_message_begin(self) -> None:
        # uvicorn's own method runs later, if the request is not served directly.
        self.url = b""
        self.headers = []
        self._header_bytes = self._chunks = self._received = 0
        self._in_body = False
        self._idle_since = None
        if self._receiving_since is None:
            self._receiving_since = time.monotonic()

    def on_url(self, url: bytes) -> None:
        self.url += url
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431, TOO_LARGE)

    def on_headers_complete(self) -> None:
        if len(self.headers) > MAX_HEADERS:
            self._refuse(431, TOO_LARGE)
        if self._refused:
            return
        self._in_body = True
        self._receiving_since = time.monotonic()
        self._direct = self._as_direct()
        if self._direct is None:
            self._hand_over()
        else:
            self.cycle = self._direct  # type: ignore[assignment]  # has what uvicorn's protocol looks at

    def _as_direct(self) -> DirectExchange | None:
        """The exchange of a request that is served directly; None for all others."""
        parser = self.parser
        largest = self.served.direct_bytes
        if parser.get_method() != b"POST" or largest is None or parser.should_upgrade():
            return None
        route = self.served.route_of_target(self.url)
        if route is None or (self.cycle is not None and not self.cycle.response_complete):
            return None
        headers, head = self.headers, self._head
        if head is None or headers != self._headers_of_head:  # most clients repeat their headers
            head, self._headers_of_head = Head(headers), headers
            self._head = head
        if head.expect or head.content_length is None or int(head.content_length) > largest:
            return None
        keep_alive = parser.should_keep_alive()
        # Only 1.1 keeps a connection by default, so that the version, a text, is seldom read.
        if (head.connection is not None or not keep_alive) and parser.get_http_version() != "1.1":
            return None
        return DirectExchange(self, route, headers, head, keep_alive)

    def _hand_over(self) -> None:
        """Let uvicorn serve the request from its beginning, through ASGI."""
        url, headers = self.url, self.headers
        super().on_message_begin()
        super().on_url(url)
        for name, value in headers:
            super().on_header(name, value)
        self.scope[SCOPE_KEY] = self  # type: ignore[literal-required]  # an extension
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._chunks += 1
        self._received += len(body)
        if self._chunks > MAX_CHUNKS:
            self._refuse(400, "The body comes in too many pieces.")
        if self._refused:
            return
        if self._direct is None:
            super().on_body(body)
        else:
            self._direct.take(body)

    def on_message_complete(self) -> None:
        self._receiving_since = None
        if self._refused:
            return
        if self._direct is None:
            super().on_message_complete()
        else:
            exchange, self._direct = self._direct, None
            exchange.task = self.loop.create_task(self._serve(exchange))

    async def _serve(self, exchange: DirectExchange) -> None:
        task = exchange.task
        assert task is not None
        self.tasks.add(task)
        self.hold(task)
        served = self.served
        if exchange.head.request_id is not None or served.request_ids.every:
            exchange.request_id = request_id = served.request_ids.id(exchange.head.request_id)
            assert request_id is not None
            enter(request_id)
        try:
            await served.infer(exchange, exchange.route)
        except Exception:  # no task awaits this one; without the close its client would wait
            logger.exception("a REST call failed")
            self.transport.close()
        finally:
            self.release(task)
            self.tasks.discard(task)

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""
        return identities(self.transport.get_extra_info("peercert"))

    def hold(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def release(self, task: asyncio.Task[Any]) -> None:
        # The next request may already hold the connection while this one's model cleans up.
        if self._task is task:
            self._task = None

    def on_response_complete(self) -> None:
        # Replaces uvicorn's, which starts a timer per request for idle connections.
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._idle_since = time.monotonic()
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._in_body and self._receiving_since is not None:
            # The response precedes the end of the body, and the rest of it is no request.
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._refuse(400, "The connection is still busy with another request.")
        if not self._refused:
            super().handle_websocket_upgrade()
            self._let_go()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def overdue(self, now: float, header_timeout: float, body_timeout: float) -> bool:
        """Whether the client takes too long to send its request."""
        if self._receiving_since is None:
            idle = self._idle_since is not None and self.cycle.response_complete
            return idle and now - cast(float, self._idle_since) > self.timeout_keep_alive
        waited = now - self._receiving_since
        if not self._in_body:
            return waited > header_timeout
        return waited > body_timeout + self._received / SLOWEST_BYTES_PER_SECOND

    def time_out(self) -> None:
        """Close the connection, with status 408 if a request has begun and has no response."""
        if self._receiving_since is None or not self._header_bytes:
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


_PHRASES = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


async def close_overdue(connections: Iterable[Any], header_timeout: float, body_timeout: float) -> None:
    """Every second, close the connections with an overdue request, without a timer per request."""
    while True:
        await asyncio.sleep(1)
        now = time.monotonic()
        for connection in list(connections):
            if isinstance(connection, Connection) and connection.overdue(now, header_timeout, body_timeout):
                connection.time_out()
