"""The call context and dependencies, with BlazeRPC names."""

from collections.abc import Callable, Mapping
from typing import Any

from inferstream import RequestContext, State


class Peer(str):
    """The address of a client in gRPC notation, such as `ipv4:127.0.0.1:50322`. Empty if unknown."""

    __slots__ = ()

    def addr(self) -> tuple[str, int] | None:
        """Return the host and port, or None for other kinds of addresses."""
        kind, _, address = self.partition(":")
        host, _, port = address.rpartition(":")
        if kind not in ("ipv4", "ipv6") or not port.isdecimal():
            return None
        return host.replace("%5B", "").replace("%5D", "").strip("[]"), int(port)

    def cert(self) -> None:
        """Return None, because the server does not expose client certificates."""


class Context:
    """The metadata and peer of a call, the path of its RPC, and the app's state."""

    __slots__ = ("app_state", "metadata", "method", "peer")

    def __init__(self, stream: Any, method: str, app_state: State) -> None:
        self.metadata: Mapping[str, str] = stream.metadata
        self.peer: Any = stream.peer
        self.method = method
        self.app_state = app_state

    @classmethod
    def from_raw(cls, metadata: Mapping[str, str], peer: Any, method: str, app_state: State) -> "Context":
        """Create a context from values, for tests."""
        context = object.__new__(cls)
        context.metadata, context.peer, context.method = metadata, peer, method
        context.app_state = app_state
        return context


class Depends:
    """A default value that injects the result of a function of the context."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn


MakeContext = Callable[[RequestContext], Context]


def build_factory(method: str, state: State) -> MakeContext:
    """Build a function that creates the contexts of one RPC's calls."""

    def make(request: RequestContext) -> Context:
        return Context.from_raw(request.headers, find_peer(request.headers), method, state)

    return make


def find_peer(headers: Mapping[str, str]) -> Peer:
    """Return the client that sent these headers. Empty except in the process that received the request."""
    return Peer(getattr(headers, "peer", None) or "")
