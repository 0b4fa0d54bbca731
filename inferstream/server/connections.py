"""Connections of HTTP clients, as every door at the port uses them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..concurrency.inflight import InflightBytes, RequestBytes, Uploader
from ..concurrency.scope import ClientLeft, Scope


def without_slash(path: str) -> str:
    """A path as routes are looked up: `/v2/` and `/v2` are the same."""
    return path.rstrip("/") or "/"


def below(prefix: str, path: str) -> str | None:
    """The part of a path below a prefix; None for any other path."""
    return path[len(prefix) :] or "/" if f"{path}/".startswith(f"{prefix}/") else None


SCOPE_KEY = "inferstream.connection"
"""The key of a connection of ours in an ASGI scope."""


class TransportOrigin:
    """The two ends of a connection over a transport."""

    transport: asyncio.Transport
    peername: Any
    """The client's address, as a socket gives it while it is open."""

    __slots__ = ()

    @property
    def client(self) -> tuple[str, int] | None:
        return _end(self.peername)

    @property
    def server(self) -> tuple[str, int] | None:
        return _end(self.transport.get_extra_info("sockname"))

    @property
    def peer(self) -> str:
        return address(self.client)

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""
        return identities(self.transport.get_extra_info("peercert"))


def _end(name: Any) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None


class OwnConnection(TransportOrigin):
    """A connection of our own port, which notices itself when its client leaves."""

    __slots__ = ("_task", "inflight", "loop", "lost", "request_bytes", "scheme")

    inflight: InflightBytes
    request_bytes: RequestBytes | None
    """What the request holds that is received or served; None for a small one."""

    loop: asyncio.AbstractEventLoop
    scheme: str
    lost: bool
    """Whether the client has left."""
    _task: asyncio.Task[Any] | None

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Cancel `task` if the client leaves before `release`."""
        self._task = task

    def release(self, task: asyncio.Task[Any]) -> None:
        # The next request may already hold the connection while this one's model cleans up.
        if self._task is task:
            self._task = None

    @property
    def upload(self) -> Uploader:
        """The client of the body."""
        raise NotImplementedError

    def count(self, size: int, announced: int = 0) -> None:
        """Count bytes of the request, of which a large body announces how many come. Raises NoRoom."""
        if self.lost:
            return
        if self.request_bytes is None:
            self.request_bytes = RequestBytes(self.inflight, announced, self.upload)
        self.request_bytes.add(size)

    def free(self) -> None:
        """The request holds nothing any more."""
        if self.request_bytes is not None:
            self.request_bytes.close()
            self.request_bytes = None

    def leave(self) -> None:
        """Take note that the client has left, and cancel what is served."""
        self.free()
        if self.lost:
            return
        self.lost = True
        if (task := self._task) is not None:
            Scope(task).end(ClientLeft())

    def abort(self) -> None:
        """Drop the client."""
        raise NotImplementedError


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


class ScopeClient(ScopeOrigin):
    """The client of a request over ASGI. When it leaves, the task that serves the request is cancelled.

    A connection of ours notices that itself. A foreign one reports it as a message, which a second task awaits from
    the end of the request's body until the response is sent.
    """

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        task: asyncio.Task[Any],
    ) -> None:
        super().__init__(scope)
        self.answered = False
        """Whether the response is whole."""
        self._receive = receive
        self._task = task
        self._listener: asyncio.Task[None] | asyncio.Handle | None = None
        self._ended: Scope | None = None
        """The work that ended because the client of a foreign connection has left."""
        self.connection: OwnConnection | None = scope.get(SCOPE_KEY)
        """The connection, if it is ours."""
        self.request_bytes: RequestBytes | None = None
        """What a request holds that came over a foreign one."""
        if self.connection is not None:
            self.connection.hold(task)

    @property
    def left(self) -> bool:
        """Whether the client has left."""
        return self._ended is not None or (self.connection is not None and self.connection.lost)

    def count(self, size: int) -> None:
        """Count bytes of the request. Raises NoRoom."""
        if self.connection is not None:
            self.connection.count(size)
        elif self.request_bytes is not None:
            self.request_bytes.add(size)

    def listen(self) -> None:
        """Await the message of a foreign connection, because the body is there."""
        if self.connection is None:
            # Most quick responses are sent before the loop's next turn: the task would cost them a third of their time.
            self._listener = self._task.get_loop().call_soon(self._begin_to_listen)

    def _begin_to_listen(self) -> None:
        self._listener = self._task.get_loop().create_task(self._listen())

    async def _listen(self) -> None:
        # Servers send this message at the end of the response too.
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._interrupt()

    def _interrupt(self) -> None:
        if self._ended is None and not self.answered:
            self._ended = Scope(self._task)
            self._ended.end(ClientLeft())

    def drop(self) -> None:
        """Let the client go. ASGI cannot close the connection; its server does."""
        if self.connection is not None:
            self.connection.abort()
        else:
            self._interrupt()

    def close(self) -> None:
        """End what waits for the client's leaving."""
        self.answered = True
        if self.connection is not None:
            self.connection.release(self._task)
        if self.request_bytes is not None:
            self.request_bytes.close()
        if self._listener is not None:
            self._listener.cancel()
        if self._ended is not None:
            self._ended.over()  # the task continues with the code around this application


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
