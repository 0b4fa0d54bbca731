"""The edge: what a stage of a package brings to see the bytes of inferences as they cross the ports."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

from ..plugins import STAGES, loaded
from ..settings import Settings

Serve = Callable[..., Coroutine[Any, Any, int]]
"""Serves an exchange for a route, with a method and a query; returns its HTTP status."""

ServeBytes = Callable[[bytes | None, Any], Awaitable[bytes | None]]
"""Serves an RPC, as `grpc.rpc.ServeRpc`."""


class Listener(Protocol):
    """What gets the messages of a WebSocket."""

    @property
    def busy(self) -> bool:
        """Whether a call runs."""

    def received(self, message: bytes, text: bool) -> None: ...

    def lost(self) -> None: ...


class Edge(Protocol):
    """Wraps what serves inferences. The stage of the same package knows their calls by `Headers.origin`."""

    def http(self, serve: Serve) -> Serve: ...

    def rpc(self, path: str, serve: ServeBytes) -> ServeBytes: ...

    def socket(
        self, open: Callable[[Any], Listener], socket: Any, path: str, headers: list[tuple[bytes, bytes]]
    ) -> Listener:
        """Open a conversation with a socket, which raises what refuses it."""


class Edges:
    """Several edges as one. The first is nearest to what serves, and each finds its own wrapper by its attribute."""

    def __init__(self, edges: Sequence[Edge]) -> None:
        self._edges = edges

    def http(self, serve: Serve) -> Serve:
        for edge in self._edges:
            serve = edge.http(serve)
        return serve

    def rpc(self, path: str, serve: ServeBytes) -> ServeBytes:
        for edge in self._edges:
            serve = edge.rpc(path, serve)
        return serve

    def socket(
        self, open: Callable[[Any], Listener], socket: Any, path: str, headers: list[tuple[bytes, bytes]]
    ) -> Listener:
        for edge in self._edges:
            open = partial(edge.socket, open, path=path, headers=headers)
        return open(socket)


def edge_of(settings: Settings) -> Edge | None:
    """The edges that stages have, as their attribute `edge`; None where all are off. Raises InvalidSettings."""
    makers = [getattr(stage, "edge", None) for _, stage in loaded(STAGES, settings.strict)]
    edges: list[Edge] = [edge for make in makers if make is not None and (edge := make(settings)) is not None]
    return Edges(edges) if len(edges) > 1 else next(iter(edges), None)
