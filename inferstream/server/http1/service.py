"""The service of a port, and the state that its connections share."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...concurrency.inflight import InflightBytes
from .cycle import App
from .exchange import Openings
from .guard import Guest, Places, PortLimits
from .heads import RawHeaders


def _nothing(_: Any) -> Any:
    return None


class Successor(Guest, Protocol):
    """The protocol that a connection goes on with: a WebSocket, or HTTP/2."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None:
        """Take first what has arrived: the request for the upgrade, or the preface."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a port serves."""

    app: App
    """Serves every request that nothing below serves."""
    probes: Collection[bytes] = ()
    """Paths that are served while every place is taken."""
    websocket: Callable[[Callable[[Guest], None]], Successor] | None = None
    """Makes the protocol of a WebSocket, which calls this when it is lost."""
    direct_bytes: int = -1
    """The largest body of a request without ASGI."""
    route: Callable[[bytes], Any] = _nothing
    """What the target of such a request asks for; None for one that takes ASGI."""
    is_fixed: Callable[[Any], bool] = _nothing
    """Whether a target asks for this at any time, so that the head of a client that repeats it says enough."""
    read: Callable[[RawHeaders], Any] = _nothing
    """What the service reads in its headers. A client that repeats them is not read again."""
    infer: Callable[[Any], Awaitable[object]] = _nothing
    """Serves the exchange of such a request, over whichever protocol it came."""
    inflight: InflightBytes = field(default_factory=InflightBytes)
    """Counts bodies, and refuses those beyond the limit."""


class PortState:
    """What the connections of a port have in common."""

    def __init__(self, service: Service, limits: PortLimits, openings: Openings, scheme: str) -> None:
        self.service = service
        self.limits = limits
        self.openings = openings
        self.scheme = scheme
        self.places = Places(limits.max_connections)
        self.http2: Callable[[Callable[[Guest], None], bool], Successor] | None = None
        """Makes the protocol of HTTP/2, which calls this when it is lost, and ends at once if True.

        None where the port speaks HTTP/1 alone.
        """
        self.tasks: set[asyncio.Task[Any]] = set()
        self.leaving = False
        """Whether each response closes its connection, because the server is about to stop."""
        self.draining = False
        """Whether connections without a request are closed."""
        self.stopped = False

    def chose_http2(self, transport: asyncio.BaseTransport) -> bool:
        """Whether a client has chosen HTTP/2 in its TLS handshake (RFC 9113 section 3.2)."""
        if self.http2 is None or (tls := transport.get_extra_info("ssl_object")) is None:
            return False
        chosen: str | None = tls.selected_alpn_protocol()
        return chosen == "h2"
