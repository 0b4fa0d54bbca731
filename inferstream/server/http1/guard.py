"""Bounds of the clients of a port: sizes, times and places."""

import asyncio
import logging
from typing import NamedTuple, Protocol

logger = logging.getLogger("inferstream.http1")

SLOWEST_BYTES_PER_SECOND = 16 * 1024
"""A body at this rate may take longer than its timeout, so large uploads over slow connections succeed."""

LINGER = 5.0
"""Seconds in which bytes behind the last response are read and dropped: a close with unread bytes is a reset."""

LINGER_BYTES = 64 * 2**20
"""Bytes that are dropped so."""

RESERVED = 64
"""Connections beyond the limit that may send a request, because it may be a probe. One more ends the oldest."""

TOO_SLOW = "The request was not received in time."
FULL = "Too many connections."
STOPS = "The server is shutting down."


class PortLimits(NamedTuple):
    """Times are seconds."""

    max_connections: int
    header_timeout: float
    body_timeout: float
    keep_alive: float
    """How long an idle connection stays open."""
    stall: float
    """How long a client may read nothing of a response."""


class Guest(Protocol):
    """What has a place."""

    def shutdown(self) -> None:
        """End as soon as no request is served, because the server stops."""


class Watched(Guest, Protocol):
    """A connection, as its guard sees it."""

    transport: asyncio.Transport
    blocked: bool
    """Whether the client does not read."""
    closing: bool
    """Whether the last response has been written."""
    fresh: bool
    """Whether the next bytes are expected soon: no request has come, or a part of a head."""

    @property
    def received(self) -> int:
        """Bytes of the body that is being received."""

    @property
    def receiving(self) -> bool:
        """Whether a body has not arrived completely."""

    @property
    def serving(self) -> bool:
        """Whether a request has no whole response."""

    @property
    def streaming(self) -> bool:
        """Whether who serves the request watches that the client reads."""

    def refuse(self, status: int, message: str) -> None:
        """End with a response of its own, unless another one has begun."""

    def time_out(self) -> None:
        """End, because the client takes too long."""


class Places:
    """The connections of a port, and those beyond its limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.connections: set[Guest] = set()
        """All of them, and the WebSockets that they have become."""
        self._beyond: dict[Watched, None] = {}
        self._emptied = asyncio.Event()

    def enter(self, connection: Watched) -> bool:
        """Whether there is a place; else the connection may ask for a probe, and the oldest of too many is refused."""
        self.connections.add(connection)
        if len(self.connections) - len(self._beyond) <= self._limit:
            return True
        self._beyond[connection] = None
        if len(self._beyond) > RESERVED:
            oldest = next(iter(self._beyond))
            del self._beyond[oldest]
            oldest.refuse(503, FULL)
        return False

    def become(self, connection: Watched, other: Guest) -> None:
        """Give the place of a connection to another protocol."""
        self.leave(connection)
        self.connections.add(other)

    def leave(self, guest: Guest) -> None:
        self.connections.discard(guest)
        self._beyond.pop(guest, None)  # type: ignore[call-overload]  # a WebSocket is never among them
        if not self.connections:
            self._emptied.set()

    async def empty(self) -> None:
        """Wait until no connection is left."""
        while self.connections:
            self._emptied.clear()
            await self._emptied.wait()


class Watch:
    """The time limits of one connection, without a timer of its own and without a clock in its code."""

    __slots__ = ("_blocked_since", "_limits", "_unsent", "since")

    def __init__(self, limits: PortLimits) -> None:
        self._limits = limits
        self.since: float | None = None
        """When the present state was first seen. The connection sets None when it begins to wait for something else."""
        self._blocked_since: float | None = None
        self._unsent = 0

    def look(self, connection: Watched, now: float) -> None:
        """Apply the limits."""
        if self.since is None:
            self.since = now
        waited = now - self.since
        if connection.closing:
            self._look_at_end(connection, waited, now)
        elif self._stalls(connection, now):
            logger.warning("a client has read nothing for %g s; dropping it", self._limits.stall)
            connection.transport.abort()
        elif connection.receiving:
            earned = connection.received / SLOWEST_BYTES_PER_SECOND
            self.since = min(self.since, now - earned)  # a fast beginning does not pay for a stall
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
        """Whether a client reads nothing of a response, where nobody else looks at that."""
        if not connection.blocked or connection.streaming:
            self._blocked_since = None
            return False
        before, self._unsent = self._unsent, connection.transport.get_write_buffer_size()
        if self._blocked_since is None or self._unsent != before:
            self._blocked_since = now
        return now - self._blocked_since > self._limits.stall

    def _look_at_end(self, connection: Watched, waited: float, now: float) -> None:
        """Abort a connection that has said its last, unless its client still reads that."""
        before, self._unsent = self._unsent, connection.transport.get_write_buffer_size()
        if self._unsent and self._unsent != before:
            self.since = now
        elif waited > (self._limits.stall if self._unsent else LINGER):
            connection.transport.abort()
