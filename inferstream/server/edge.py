"""The edge: what a stage of a package brings to see the bytes of inferences as they cross the ports."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from ..extensions import STAGES, loaded
from ..settings import Settings

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


class Edge(Protocol):
    """Wraps what serves inferences. The stage of the same package knows their calls by `Headers.origin`."""

    def http(self, serve: Serve) -> Serve: ...

    def rpc(self, path: str, serve: ServeBytes) -> ServeBytes: ...

    def socket(
        self, open: Callable[[Any], Listener], socket: Any, path: str, headers: list[tuple[bytes, bytes]]
    ) -> Listener:
        """Open a conversation with a socket, which raises what refuses it."""


class WholeEdge(Protocol):
    """Wraps all that is served, inside the edges of stages."""

    def http(self, serve: Serve) -> Serve: ...

    def request(self, serve: ServeOther) -> ServeOther: ...

    def rpc(self, path: str, serve: ServeBytes) -> ServeBytes: ...


def edges_of(settings: Settings) -> list[Edge]:
    """The edges that stages have, as their attribute `edge`; the first is nearest to what serves.

    Each finds its own wrapper by its attribute. Raises InvalidSettings.
    """
    makers = [getattr(stage, "edge", None) for _, stage in loaded(STAGES, settings.strict)]
    return [edge for make in makers if make is not None and (edge := make(settings)) is not None]
