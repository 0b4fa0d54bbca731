"""Edges: plug-in hooks around the HTTP requests, RPCs and WebSockets of a server."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Protocol

from ..telemetry import probes

RawHeaders = list[tuple[bytes, bytes]]

Serve = Callable[..., Coroutine[Any, Any, int]]
"""Serves an HTTP inference, given the exchange, route, method and query. Returns the HTTP status."""

ServeOther = Callable[[Any, Any, Any, Any], Awaitable[None]]
"""Serves any other HTTP request, given its route or None, followed by the three ASGI arguments."""

ServeBytes = Callable[[bytes | None, Any], Awaitable[bytes | None]]
"""Serves an RPC, as `grpc.rpc.ServeRpc` does."""


class Listener(Protocol):
    """Receives the messages of a WebSocket."""

    @property
    def busy(self) -> bool:
        """Whether a call is in progress."""

    def receive(self, message: bytes, text: bool) -> None: ...

    def lost(self) -> None: ...


OpenSocket = Callable[[Any, str, RawHeaders, bytes | None], Listener]
"""Opens a WebSocket conversation, given the socket, the path, the headers and the request id or None.

Raises the error that rejects the conversation.
"""


class Edge:
    """The base class of edges. The server creates one instance per process with ports.

    Override only the hooks that you need: the others have no overhead. A stage of the same plug-in can match
    a call to its request by `Headers.origin`.
    """

    unlogged_paths: ClassVar[tuple[str, ...]] = probes.PATHS
    """Path prefixes of probes and scrapes, which are omitted from logs and traces."""

    unlogged_rpcs: ClassVar[tuple[str, ...]] = probes.RPCS
    """The RPC names of probes, without the service name."""

    headers: Callable[[RawHeaders], RawHeaders] | None = None
    """Maps the request headers of an inference to additional response headers."""

    current_span: Callable[[], tuple[str, str] | None] | None = None
    """Returns the trace id and span id of the running code for log lines, or None outside a span."""

    def http(self, serve: Serve) -> Serve:
        """Wrap the function that serves inferences over HTTP."""
        return serve

    def request(self, serve: ServeOther) -> ServeOther:
        """Wrap the function that serves all other HTTP requests."""
        return serve

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        """Wrap the function that serves an RPC. `infers` is true if the RPC is an inference."""
        return serve

    def socket(self, open: OpenSocket) -> OpenSocket:
        """Wrap the function that opens WebSocket conversations."""
        return open

    def start(self) -> None:
        """Start background work."""

    async def stop(self) -> None:
        """Stop background work. No more requests arrive."""
