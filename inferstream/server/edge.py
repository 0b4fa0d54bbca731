"""The edge: what a plug-in puts around the requests, RPCs and sockets of a server."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Protocol

from ..telemetry import probes

RawHeaders = list[tuple[bytes, bytes]]

Serve = Callable[..., Coroutine[Any, Any, int]]
"""Serves an exchange for a route, with a method and a query; returns its HTTP status."""

ServeOther = Callable[[Any, Any, Any, Any], Awaitable[None]]
"""Serves a request that is no inference: its route or None, and the three arguments of ASGI."""

ServeBytes = Callable[[bytes | None, Any], Awaitable[bytes | None]]
"""Serves an RPC, as `grpc.rpc.ServeRpc`."""


class Listener(Protocol):
    """What gets the messages of a WebSocket."""

    @property
    def busy(self) -> bool:
        """Whether a call runs."""

    def received(self, message: bytes, text: bool) -> None: ...

    def lost(self) -> None: ...


OpenSocket = Callable[[Any, str, RawHeaders, bytes | None], Listener]
"""Opens a conversation with a socket, of a path, with headers and perhaps the id of the request.

Raises what refuses it.
"""


class Edge:
    """Is made once for each process with ports. A subclass overrides what it needs; the rest has no overhead.

    A stage of the same plug-in can find its calls by `Headers.origin`.
    """

    unlogged_paths: ClassVar[tuple[str, ...]] = probes.PATHS
    """How the paths of probes and scrapes begin, which logs and traces omit."""

    unlogged_rpcs: ClassVar[tuple[str, ...]] = probes.RPCS
    """The names of such RPCs, without their service."""

    headers: Callable[[RawHeaders], RawHeaders] | None = None
    """Headers of the response to an inference with these headers, before it is sent."""

    current_span: Callable[[], tuple[str, str] | None] | None = None
    """The trace id and the span id of the code that is running, for log lines; it returns None outside of spans."""

    def http(self, serve: Serve) -> Serve:
        """Wrap what serves inferences over HTTP."""
        return serve

    def request(self, serve: ServeOther) -> ServeOther:
        """Wrap what serves other requests over HTTP."""
        return serve

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        """Wrap what serves an RPC; `infers` says whether it is an inference."""
        return serve

    def socket(self, open: OpenSocket) -> OpenSocket:
        """Wrap what opens conversations with WebSockets."""
        return open

    def start(self) -> None:
        """Begin what runs beside requests."""

    async def stop(self) -> None:
        """End it. There are no more requests."""
