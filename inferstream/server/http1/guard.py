"""Limits for the clients of a port: sizes, timeouts and number of connections."""

import asyncio
import logging
from typing import NamedTuple, Protocol

logger = logging.getLogger("inferstream.http1")

SLOWEST_BYTES_PER_SECOND = 16 * 1024
"""Upload rate above which a body may take longer than its timeout, so that large, slow uploads succeed."""

LINGER = 5.0
"""Seconds for which incoming bytes are read and discarded after the last response.

Closing a connection with unread bytes would reset it.
"""

LINGER_BYTES = 64 * 2**20
"""The maximum number of bytes to discard after the last response."""

RESERVED = 64
"""The number of connections accepted beyond the limit, so that probes are still served.

If one more client connects, the oldest of these connections is closed.
"""

TOO_SLOW = "The request was not received in time."
FULL = "Too many connections."
STOPS = "The server is shutting down."


class PortLimits(NamedTuple):
    """The limits of a port. All times are in seconds."""

    max_connections: int
    header_timeout: float
    body_timeout: float
    keep_alive: float
    """How long an idle connection stays open."""
    stall: float
    """How long a client may pause reading a response."""


class Guest(Protocol):
    """A connection that occupies one of a port's slots."""

    def shutdown(self) -> None:
        """Close as soon as no request is being served, because the server is stopping."""


class Watched(Guest, Protocol):
    """The interface of a connection that the time limits use."""

    transport: asyncio.Transport
    blocked: bool
    """Whether the write buffer is full, because the client does not read."""
    closing: bool
    """Whether the last response has been written."""
    fresh: bool
    """Whether the header timeout applies: no request, or only a part of its head, has been received."""

    @property
    def received(self) -> int:
        """Received bytes of the current body."""

    @property
    def receiving(self) -> bool:
        """Whether the body of the current request is incomplete."""

    @property
    def serving(self) -> bool:
        """Whether the response to a request is incomplete."""

    @property
    def streaming(self) -> bool:
        """Whether the service itself detects that the client has stopped reading."""

    def refuse(self, status: int, message: str) -> None:
        """Close with an error response, unless another response has started."""

    def time_out(self) -> None:
        """Close, because the client is too slow."""


class Places:
    """The connections of a port, including the connections beyond its limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.connections: set[Guest] = set()
        """All connections, including those upgraded to WebSockets."""
        self._beyond: dict[Watched, None] = {}
        self._emptied = asyncio.Event()

    def enter(self, connection: Watched) -> bool:
        """Add a connection. Returns whether it is within the limit.

        A connection beyond the limit may only send a probe. If too many exceed the limit, the oldest of them
        is rejected.
        """
        self.connections.add(connection)
        if len(self.connections) - len(self._beyond) <= self._limit:
            return True
        self._beyond[connection] = None
        if len(self._beyond) > RESERVED:
            oldest = next(iter(self._beyond))
            del self._beyond[oldest]
            oldest.refuse(503, FULL)
        return False

    def replace(self, connection: Watched, other: Guest) -> None:
        """Replace a connection with another protocol in the same slot."""
        self.leave(connection)
        self.connections.add(other)

    def leave(self, guest: Guest) -> None:
        self.connections.discard(guest)
        self._beyond.pop(guest, None)  # type: ignore[call-overload]  # never contains a WebSocket
        if not self.connections:
            self._emptied.set()

    async def wait_until_empty(self) -> None:
        """Wait until all connections are closed."""
        while self.connections:
            self._emptied.clear()
            await self._emptied.wait()


class Watch:
    """The time limits of one connection, checked by the port's timer. The caller passes the time."""

    __slots__ = ("_blocked_since", "_limits", "_unsent", "since")

    def __init__(self, limits: PortLimits) -> None:
        self._limits = limits
        self.since: float | None = None
        """When the current state was first seen. The connection resets it to None when its state changes."""
        self._blocked_since: float | None = None
        self._unsent = 0

    def enforce_limits(self, connection: Watched, now: float) -> None:
        """Enforce the limits."""
        if self.since is None:
            self.since = now
        waited = now - self.since
        if connection.closing:
            self._check_after_end(connection, waited, now)
        elif self._stalls(connection, now):
            logger.warning("client has not read for %g s; closing the connection", self._limits.stall)
            connection.transport.abort()
        elif connection.receiving:
            earned = connection.received / SLOWEST_BYTES_PER_SECOND
            self.since = min(self.since, now - earned)  # a fast start does not compensate for a stall
            if now - self.since > self._limits.body_timeout + earned:
                connection.time_out()
        elif connection.serving:
            pass
        elif connection.fresh:
            if waited > self._limits.header_timeout:
                connection.time_out()
        elif waited > self._limits.keep_alive:
            connection.time_out()

    def _stalls(self, connection: Watched, now: float) -> bool:
        """Whether a client has stopped reading a response, unless the service detects that itself."""
        if not connection.blocked or connection.streaming:
            self._blocked_since = None
            return False
        before, self._unsent = self._unsent, connection.transport.get_write_buffer_size()
        if self._blocked_since is None or self._unsent != before:
            self._blocked_since = now
        return now - self._blocked_since > self._limits.stall

    def _check_after_end(self, connection: Watched, waited: float, now: float) -> None:
        """Abort a connection after its last response, unless the client is still reading it."""
        before, self._unsent = self._unsent, connection.transport.get_write_buffer_size()
        if self._unsent and self._unsent != before:
            self.since = now
        elif waited > (self._limits.stall if self._unsent else LINGER):
            connection.transport.abort()
