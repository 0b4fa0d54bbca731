"""What a port serves, and what its connections share."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from .cycle import App
from .exchange import Exchange
from .guard import Guest, Limits, Places
from .heads import RawHeaders
from .responses import Openings


def _nothing(_: Any) -> Any:
    return None


class WebSocket(Guest, Protocol):
    """The protocol of a connection that has asked for an upgrade."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None:
        """Take the request for the upgrade first."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a port serves."""

    app: App
    """Serves every request that nothing below serves."""
    probes: Collection[bytes] = ()
    """Paths that are served while every place is taken."""
    websocket: Callable[[Callable[[Guest], None]], WebSocket] | None = None
    """Makes the protocol of a WebSocket, which calls this when it is lost."""
    direct_bytes: int = -1
    """The largest body of a request without ASGI."""
    route: Callable[[bytes], Any] = _nothing
    """What the target of such a request asks for; None for one that takes ASGI."""
    read: Callable[[RawHeaders], Any] = _nothing
    """What the service reads in its headers. A client that repeats them is not read again."""
    infer: Callable[[Exchange], Awaitable[object]] = _nothing


class Shared:
    """What the connections of a port have in common."""

    def __init__(self, service: Service, limits: Limits, openings: Openings, scheme: str) -> None:
        self.service = service
        self.limits = limits
        self.openings = openings
        self.scheme = scheme
        self.places = Places(limits.max_connections)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.stopped = False
