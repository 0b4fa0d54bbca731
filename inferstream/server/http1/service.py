"""The service of a port, and the state shared by its connections."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...concurrency.inflight import InflightBytes
from .cycle import App
from .exchange import Openings
from .guard import Guest, Places, PortLimits
from .heads import RawHeaders


def _do_nothing(_: Any) -> Any:
    return None


class Successor(Guest, Protocol):
    """The protocol that takes over a connection: a WebSocket or HTTP/2."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None:
        """Receive bytes, starting with those that have already arrived: an upgrade request or a preface."""


@dataclass(frozen=True, slots=True)
class Service:
    """The handlers of a port's requests."""

    app: App
    """The ASGI application for all requests that the other handlers do not serve."""
    probes: Collection[bytes] = ()
    """Paths that are served even if all connection slots are taken."""
    websocket: Callable[[Callable[[Guest], None]], Successor] | None = None
    """Creates a WebSocket protocol, given the function to call when the connection is lost."""
    direct_bytes: int = -1
    """The maximum body size, in bytes, of a request that is served without ASGI."""
    route: Callable[[bytes], Any] = _do_nothing
    """Returns the direct route of a target, or None if the ASGI application handles the request."""
    is_fixed: Callable[[Any], bool] = _do_nothing
    """Whether a route never changes, so that a repeated head needs no second look-up."""
    read: Callable[[RawHeaders], Any] = _do_nothing
    """Interprets the headers of a direct request. The result is cached while a client repeats its head."""
    infer: Callable[[Any], Awaitable[object]] = _do_nothing
    """Serves the exchange of a direct request, over any protocol version."""
    inflight: InflightBytes = field(default_factory=InflightBytes)
    """Counts the bytes of bodies, and rejects bodies beyond the limit."""


class PortState:
    """The state shared by the connections of a port."""

    def __init__(self, service: Service, limits: PortLimits, openings: Openings, scheme: str) -> None:
        self.service = service
        self.limits = limits
        self.openings = openings
        self.scheme = scheme
        self.places = Places(limits.max_connections)
        self.http2: Callable[[Callable[[Guest], None], bool], Successor] | None = None
        """Creates an HTTP/2 protocol, or is None if the port only speaks HTTP/1.

        The first argument is the function to call when the connection is lost. If the second is true, the
        connection closes immediately.
        """
        self.tasks: set[asyncio.Task[Any]] = set()
        self.leaving = False
        """Whether every response closes its connection, because the server is about to stop."""
        self.draining = False
        """Whether idle connections are closed."""
        self.stopped = False

    def chose_http2(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the client selected HTTP/2 in the TLS handshake (RFC 9113, section 3.2)."""
        if self.http2 is None or (tls := transport.get_extra_info("ssl_object")) is None:
            return False
        chosen: str | None = tls.selected_alpn_protocol()
        return chosen == "h2"
