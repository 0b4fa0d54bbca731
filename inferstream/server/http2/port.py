"""An HTTP/2 port: its connections, their time limits and its shutdown."""

import asyncio
import logging
import random
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .connection import Http2Connection
from .errors import ErrorCode
from .limits import Http2Limits
from .stream import Accept, TooLarge

logger = logging.getLogger("inferstream.http2")

CHECK_INTERVAL_SECONDS = 1.0
"""The maximum number of seconds between checks of the time limits."""

HANDSHAKE = 10.0
"""The timeout of a TLS handshake in seconds."""

CLOSING = 2.0
"""Seconds for the last bytes to reach a client."""

DRAINING = 1.0
"""Seconds for a client to react to the first GOAWAY (RFC 9113, section 6.8)."""

SPREAD = 0.1
"""The fraction by which the maximum age of connections varies, so that clients do not reconnect together."""

STOPS = "the server stops"


class Http2Port:
    """Serves HTTP/2 on one socket: over TLS if `context` is given, else in cleartext with prior knowledge."""

    def __init__(
        self,
        accept: Accept,
        too_large: TooLarge,
        limits: Http2Limits,
        *,
        max_connections: int,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._accept = accept
        self._too_large = too_large
        self._limits = limits
        self._most = max_connections
        self._context = context
        self.connections: set[Http2Connection] = set()
        self._ages: dict[Http2Connection, float] = {}
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None
        self._emptied = asyncio.Event()
        self._draining = self._stopped = False

    async def start(self, sock: socket.socket | None) -> None:
        """Serve on a bound socket until `stop`. Without one, serve connections that other ports accept."""
        loop = asyncio.get_running_loop()
        self._looking = loop.create_task(self._enforce_timeouts())
        if sock is None:
            return
        options: dict[str, Any] = {}
        if self._context is not None:
            self._context.set_alpn_protocols(["h2"])
            options = {
                "ssl": self._context,
                "ssl_handshake_timeout": HANDSHAKE,
                "ssl_shutdown_timeout": CLOSING,
            }
        self._server = await loop.create_server(self.create_connection, sock=sock, backlog=2048, **options)

    def create_connection(self) -> Http2Connection:
        """Create the protocol for a connection that this port has accepted."""
        return Http2Connection(
            self._accept, self._too_large, self._limits, self._admit_connection, self._remove_connection
        )

    def create_guest(self, lost: Callable[[Http2Connection], None], full: bool) -> Http2Connection:
        """Create the protocol for a connection that another port has accepted.

        It calls `lost` when the connection has closed, and closes immediately if the other port is `full`.
        """

        def accept(connection: Http2Connection) -> bool:
            return self._admit_connection(connection) and not full

        def leave(connection: Http2Connection) -> None:
            self._remove_connection(connection)
            lost(connection)

        return Http2Connection(self._accept, self._too_large, self._limits, accept, leave)

    def _admit_connection(self, connection: Http2Connection) -> bool:
        ssl_object = connection.transport.get_extra_info("ssl_object")
        if ssl_object is not None and ssl_object.selected_alpn_protocol() != "h2":
            connection.close()
            return True
        self.connections.add(connection)
        if self._limits.max_age is not None:
            self._ages[connection] = self._limits.max_age * random.uniform(1 - SPREAD, 1 + SPREAD)
        if self._stopped:  # the TLS handshake took longer than the stop
            connection.end(ErrorCode.NO_ERROR, STOPS)
        elif self._draining and self._server is not None:
            connection.drain()  # not on a port shared with HTTP/1, where the client could reconnect forever
        return len(self.connections) <= self._most

    def _remove_connection(self, connection: Http2Connection) -> None:
        self.connections.discard(connection)
        self._ages.pop(connection, None)
        if not self.connections:
            self._emptied.set()

    async def _enforce_timeouts(self) -> None:
        """Enforce the time limits of all connections with a single timer."""
        limits = self._limits
        times = (
            limits.preface_timeout,
            limits.header_timeout,
            limits.body_timeout,
            limits.stall_timeout,
            limits.keepalive_time,
            limits.keepalive_timeout,
            limits.max_idle,
            limits.max_age,
            CHECK_INTERVAL_SECONDS * 4,
        )
        interval = max(min(time for time in times if time is not None) / 4, 0.01)
        while True:
            await asyncio.sleep(interval)
            now = asyncio.get_running_loop().time()
            for connection in [*self.connections]:
                try:
                    enforce_limits(connection, limits, self._ages.get(connection), now)
                except Exception:  # the limits of other connections still apply
                    logger.exception("connection timeout check failed")
                    connection.abort()

    def drain(self) -> None:
        """Stop listening, and close each connection after its requests.

        If the port stayed open, clients would reconnect after each GOAWAY, forever.
        """
        self._draining = True
        if self._server is not None:
            self._server.close()
        for connection in [*self.connections]:
            connection.drain()

    async def stop(self, grace: float) -> None:
        """Drain for at most `grace` seconds, then close every connection."""
        self.drain()
        with suppress(TimeoutError):
            await self._wait_until_empty(grace)
        self._stopped = True
        for connection in [*self.connections]:
            connection.end(ErrorCode.NO_ERROR, STOPS)
        with suppress(TimeoutError):
            await self._wait_until_empty(CLOSING)
        for connection in [*self.connections]:
            connection.abort()
        if self._looking is not None:
            self._looking.cancel()

    async def _wait_until_empty(self, seconds: float) -> None:
        self._emptied.clear()
        if self.connections:
            async with asyncio.timeout(seconds):
                await self._emptied.wait()


def enforce_limits(connection: Http2Connection, limits: Http2Limits, age: float | None, now: float) -> None:
    """Enforce the time limits of one connection."""
    if connection.ended:
        _check_after_end(connection, limits, now)
        return
    if connection.partial_since is not None:
        configured = connection.acknowledged
        if now - connection.partial_since > (limits.header_timeout if configured else limits.preface_timeout):
            connection.end(ErrorCode.PROTOCOL_ERROR, "the client takes too long")
            return
    if not connection.acknowledged and now - connection.opened_at > limits.settings_timeout:
        connection.end(ErrorCode.SETTINGS_TIMEOUT, "the SETTINGS were not acknowledged")
        return
    _enforce_stream_limits(connection, limits, now)
    _keep_alive(connection, limits, now)
    if connection.draining:
        _end_drain(connection, limits, age, now)
    elif _is_old(connection, limits, age, now):
        connection.drain()


def _check_after_end(connection: Http2Connection, limits: Http2Limits, now: float) -> None:
    """Abort a connection after its last bytes, unless the client is still reading them."""
    if connection.ended_at is None:
        return
    before, unsent = connection.unsent, connection.transport.get_write_buffer_size()
    connection.unsent = unsent
    closing = now - connection.ended_at
    reads = unsent and (before is None or unsent < before) and closing < (limits.stall_timeout or closing)
    if closing > CLOSING and not reads:
        connection.abort()


def _is_old(connection: Http2Connection, limits: Http2Limits, age: float | None, now: float) -> bool:
    """Whether a connection has reached its maximum age or has been idle for too long."""
    if age is not None and now - connection.opened_at > age:
        return True
    idle = now - connection.used_at
    return limits.max_idle is not None and not connection.streams and idle > limits.max_idle


def _end_drain(connection: Http2Connection, limits: Http2Limits, age: float | None, now: float) -> None:
    assert connection.drain_began is not None
    if now - connection.drain_began > DRAINING and not connection.ends_quietly:
        connection.stop_accepting()
    last = None if age is None or limits.max_age_grace is None else age + limits.max_age_grace
    if last is not None and now - connection.opened_at > last:
        connection.end(ErrorCode.NO_ERROR, "max_age")


def _enforce_stream_limits(connection: Http2Connection, limits: Http2Limits, now: float) -> None:
    for stream in [*connection.streams.values()]:
        since, receiver = stream.expecting_since, stream.receiver
        if since is not None and receiver is not None:
            earned = stream.taken / limits.slowest_rate
            stream.expecting_since = min(since, now - earned)  # a fast start does not compensate for a stall
            if now - stream.expecting_since > limits.body_timeout + earned:
                receiver.time_out()
            continue
        limit, since = limits.stall_timeout, stream.stalled_since
        if limit is not None and since is not None and now - since > limit:
            logger.warning("stream: client has not read for %g s; closing the connection", limit)
            stream.reset(ErrorCode.CANCEL)
            if receiver is not None:
                receiver.lost()


def _keep_alive(connection: Http2Connection, limits: Http2Limits, now: float) -> None:
    if limits.keepalive_time is None:
        return
    quiet = now - connection.heard_at
    if connection.pinged_at is not None and connection.heard_at < connection.pinged_at:
        if limits.keepalive_timeout is not None and now - connection.pinged_at > limits.keepalive_timeout:
            logger.debug("client does not acknowledge PING; closing the connection")
            connection.abort()
    elif quiet > limits.keepalive_time:
        connection.send_keepalive_ping()
