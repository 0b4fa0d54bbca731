"""An HTTP/1 port: its socket, its connections and its shutdown."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from .connection import Http1Connection
from .exchange import Openings
from .guard import Guest, PortLimits
from .service import PortState, Service, Successor

logger = logging.getLogger("inferstream.http1")

CHECK_INTERVAL_SECONDS = 1.0
"""Seconds between checks of the time limits, and between updates of the `Date` header."""

HANDSHAKE = 10.0
"""The timeout of a TLS handshake in seconds. No other limit applies during the handshake."""

LAST_WORDS = 2
"""Seconds for finished responses to reach their clients during a shutdown."""


class Http1Port:
    """Serves HTTP/1 on one socket, over TLS if `context` is given."""

    def __init__(
        self,
        service: Service,
        limits: PortLimits,
        openings: Openings,
        *,
        backlog: int,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.openings = openings
        self.scheme = "http" if context is None else "https"
        self._shared = PortState(service, limits, openings, self.scheme)
        self._backlog = backlog
        self._context = context
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket until `stop`."""
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        if self._context is not None:
            if self._shared.http2 is not None:
                self._context.set_alpn_protocols(["h2", "http/1.1"])
            options = {
                "ssl": self._context,
                "ssl_handshake_timeout": HANDSHAKE,
                "ssl_shutdown_timeout": float(LAST_WORDS),
            }
        connection = partial(Http1Connection, self._shared)
        self._server = await loop.create_server(connection, sock=sock, backlog=self._backlog, **options)
        self._looking = loop.create_task(self._enforce_timeouts())

    def speak_http2(self, guest: Callable[[Callable[[Guest], None], bool], Successor]) -> None:
        """Enable HTTP/2. `guest` creates the protocol of a connection, as described in `PortState.http2`."""
        self._shared.http2 = guest

    async def _enforce_timeouts(self) -> None:
        """Enforce the time limits of all connections with a single timer."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            self.openings.renew()
            now = asyncio.get_running_loop().time()
            for connection in [*self._shared.places.connections]:
                if isinstance(connection, Http1Connection):
                    try:
                        connection.watch.enforce_limits(connection, now)
                    except Exception:  # the limits of other connections still apply
                        logger.exception("connection timeout check failed")
                        connection.transport.abort()

    def leave(self) -> None:
        """Close each connection after its next response. The server still accepts calls."""
        self._shared.leaving = True
        for guest in [*self._shared.places.connections]:
            if isinstance(guest, Http1Connection):
                guest.shutdown(idle=False)

    def drain(self) -> None:
        """Close idle connections now, and other connections after their current response."""
        self.leave()
        self._shared.draining = True
        for guest in [*self._shared.places.connections]:
            guest.shutdown()

    async def stop(self) -> None:
        """Stop accepting connections, let responses in progress finish, then close all connections."""
        self._shared.leaving = self._shared.stopped = True
        if self._server is None:
            return
        self._server.close()
        for guest in [*self._shared.places.connections]:
            guest.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._shared.places.wait_until_empty()
                if self._shared.tasks:
                    await asyncio.wait(self._shared.tasks)
        for task in [*self._shared.tasks]:
            task.cancel()
        for guest in [*self._shared.places.connections]:
            if isinstance(guest, Http1Connection):
                guest.transport.abort()
        if self._looking is not None:
            self._looking.cancel()
