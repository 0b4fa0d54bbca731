"""The edge: what a stage of a package brings to see the bytes of inferences as they cross the ports."""

from collections.abc import Awaitable, Callable, Coroutine
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


def edge_of(settings: Settings) -> Edge | None:
    """The first edge that a stage has, as its attribute `edge`; None where all are off. Raises InvalidSettings."""
    for _, stage in loaded(STAGES, settings.strict):
        make: Callable[[Settings], Edge | None] | None = getattr(stage, "edge", None)
        if make is not None and (edge := make(settings)) is not None:
            return edge
    return None
