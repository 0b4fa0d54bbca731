"""The context of a call, which functions get beside their arguments, under BlazeRPC's names."""

from collections.abc import Callable, Mapping
from typing import Any

from inferstream import RequestContext, State


class Peer(str):
    """The address of a client, as gRPC shows it: `ipv4:127.0.0.1:50322`. It is empty where the server has none."""

    __slots__ = ()

    def addr(self) -> tuple[str, int] | None:
        """Host and port; None for other addresses."""
        kind, _, address = self.partition(":")
        host, _, port = address.rpartition(":")
        if kind not in ("ipv4", "ipv6") or not port.isdecimal():
            return None
        return host.replace("%5B", "").replace("%5D", "").strip("[]"), int(port)

    def cert(self) -> None:
        """No certificate: the server does not pass it on."""


class Context:
    """Metadata and peer of a call, the path of its RPC, and the state of the app."""

    __slots__ = ("app_state", "metadata", "method", "peer")

    def __init__(self, stream: Any, method: str, app_state: State) -> None:
        self.metadata: Mapping[str, str] = stream.metadata
        self.peer: Any = stream.peer
        self.method = method
        self.app_state = app_state

    @classmethod
    def from_raw(cls, metadata: Mapping[str, str], peer: Any, method: str, app_state: State) -> "Context":
        """A context of these values, for tests of functions."""
        context = object.__new__(cls)
        context.metadata, context.peer, context.method = metadata, peer, method
        context.app_state = app_state
        return context


class Depends:
    """A default that fills an argument with the result of a function of the context."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn


MakeContext = Callable[[RequestContext], Context]


def maker(method: str, state: State) -> MakeContext:
    """Makes the contexts of calls of one RPC."""

    def make(request: RequestContext) -> Context:
        return Context.from_raw(request.headers, peer_of(request.headers), method, state)

    return make


def peer_of(headers: Mapping[str, str]) -> Peer:
    """The client that sent these headers. Headers of gRPC and HTTP know it, in the process of the ports."""
    return Peer(getattr(headers, "peer", None) or "")
