"""Connections of HTTP clients, as every door at the port uses them."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

SCOPE_KEY = "inferstream.connection"
"""The key of a connection of ours in an ASGI scope."""


class OwnConnection(Protocol):
    """A connection of our own port, which notices itself when its client leaves."""

    loop: asyncio.AbstractEventLoop
    lost: bool
    """Whether the client has left."""
    transport: Any

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Cancel `task` if the client leaves before `release`."""

    def release(self, task: asyncio.Task[Any]) -> None: ...


class ScopeOrigin:
    """The client of a request over ASGI."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope

    @property
    def peer(self) -> str:
        return address(self._scope.get("client"))

    @property
    def identities(self) -> tuple[str, ...]:
        connection: OwnConnection | None = self._scope.get(SCOPE_KEY)
        return () if connection is None else connection.identities


def address(client: tuple[str, int] | None) -> str:
    """A client as gRPC shows it: `ipv4:127.0.0.1:50322`."""
    if client is None:
        return ""
    host, port = client
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


_NAMES = ("DNS", "URI", "IP Address", "email")
"""Kinds of alternative names that are a text."""


def identities(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names in a client's verified certificate, in the form of `ssl.SSLSocket.getpeercert`."""
    if not certificate:
        return ()
    names = tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind in _NAMES)
    if names:
        return names
    subject = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return (subject["commonName"],) if "commonName" in subject else ()
