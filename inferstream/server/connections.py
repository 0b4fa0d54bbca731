"""Client connections of the HTTP port, shared by all transports that use it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..concurrency.inflight import InflightBytes, RequestBytes, Uploader
from ..concurrency.scope import ClientLeft, Scope


def strip_slashes(path: str) -> str:
    """Remove trailing slashes before a route look-up, because `/v2/` and `/v2` are the same path."""
    return path.rstrip("/") or "/"


def relative_path(prefix: str, path: str) -> str | None:
    """Return the part of `path` below `prefix`, or None if the path is not below it."""
    return path[len(prefix) :] or "/" if f"{path}/".startswith(f"{prefix}/") else None


SCOPE_KEY = "inferstream.connection"
"""The ASGI scope key of an `OwnConnection`."""


class TransportOrigin:
    """The client and server addresses of a connection with an asyncio transport."""

    transport: asyncio.Transport
    peername: Any
    """The client address, read while the socket was open."""

    __slots__ = ()

    @property
    def client(self) -> tuple[str, int] | None:
        return _parse_address(self.peername)

    @property
    def server(self) -> tuple[str, int] | None:
        return _parse_address(self.transport.get_extra_info("sockname"))

    @property
    def peer(self) -> str:
        return address(self.client)

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""
        return identities(self.transport.get_extra_info("peercert"))


def _parse_address(name: Any) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None


class OwnConnection(TransportOrigin):
    """A connection to one of the server's own ports. It detects a disconnect without ASGI messages."""

    __slots__ = ("_task", "inflight", "loop", "lost", "request_bytes", "scheme")

    inflight: InflightBytes
    request_bytes: RequestBytes | None
    """Counts the bytes of the current request. None if the request is small."""

    loop: asyncio.AbstractEventLoop
    scheme: str
    lost: bool
    """Whether the client has disconnected."""
    _task: asyncio.Task[Any] | None

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Cancel `task` if the client disconnects before `release`."""
        self._task = task

    def release(self, task: asyncio.Task[Any]) -> None:
        # The next request may already own the connection while the model of this request cleans up.
        if self._task is task:
            self._task = None

    @property
    def upload(self) -> Uploader:
        """The client that uploads the body."""
        raise NotImplementedError

    def count(self, size: int, announced: int = 0) -> None:
        """Count `size` more bytes of the request.

        `announced` is the `Content-Length` of a large body. Raises NoRoom if too many bytes are in flight.
        """
        if self.lost:
            return
        if self.request_bytes is None:
            self.request_bytes = RequestBytes(self.inflight, announced, self.upload)
        self.request_bytes.add(size)

    def free(self) -> None:
        """Stop counting the request's bytes."""
        if self.request_bytes is not None:
            self.request_bytes.close()
            self.request_bytes = None

    def leave(self) -> None:
        """Record that the client has disconnected, and cancel the running task."""
        self.free()
        if self.lost:
            return
        self.lost = True
        if (task := self._task) is not None:
            Scope(task).end(ClientLeft())

    def abort(self) -> None:
        """Close the connection immediately."""
        raise NotImplementedError


class ScopeOrigin:
    """The client of an ASGI request."""

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
    """The client of an ASGI request. If it disconnects, the task that serves the request is cancelled.

    An `OwnConnection` detects the disconnect itself. Another ASGI server reports it as a message, so a second
    task waits for that message from the end of the request body until the response is sent.
    """

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        task: asyncio.Task[Any],
    ) -> None:
        super().__init__(scope)
        self.answered = False
        """Whether the response is complete."""
        self._receive = receive
        self._task = task
        self._listener: asyncio.Task[None] | asyncio.Handle | None = None
        self._ended: Scope | None = None
        """The cancellation of the request, set when another ASGI server reports a disconnect."""
        self.connection: OwnConnection | None = scope.get(SCOPE_KEY)
        """The connection, or None if the request arrived through another ASGI server."""
        self.request_bytes: RequestBytes | None = None
        """Counts the bytes of a request that arrived through another ASGI server."""
        if self.connection is not None:
            self.connection.hold(task)

    @property
    def left(self) -> bool:
        """Whether the client has disconnected."""
        return self._ended is not None or (self.connection is not None and self.connection.lost)

    def count(self, size: int) -> None:
        """Count `size` more bytes of the request. Raises NoRoom if too many bytes are in flight."""
        if self.connection is not None:
            self.connection.count(size)
        elif self.request_bytes is not None:
            self.request_bytes.add(size)

    def listen(self) -> None:
        """Start waiting for a disconnect message. An `OwnConnection` detects the disconnect without one."""
        if self.connection is None:
            # Deferred: most quick responses are sent before the next loop iteration, and a task would slow
            # them by a third.
            self._listener = self._task.get_loop().call_soon(self._begin_to_listen)

    def _begin_to_listen(self) -> None:
        self._listener = self._task.get_loop().create_task(self._listen())

    async def _listen(self) -> None:
        # Servers also send this message after the response.
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._interrupt()

    def _interrupt(self) -> None:
        if self._ended is None and not self.answered:
            self._ended = Scope(self._task)
            self._ended.end(ClientLeft())

    def drop(self) -> None:
        """Disconnect the client.

        ASGI has no message that closes a connection, but servers close it once the request is cancelled.
        """
        if self.connection is not None:
            self.connection.abort()
        else:
            self._interrupt()

    def close(self) -> None:
        """Stop watching for a disconnect, and release the connection and the counted bytes."""
        self.answered = True
        if self.connection is not None:
            self.connection.release(self._task)
        if self.request_bytes is not None:
            self.request_bytes.close()
        if self._listener is not None:
            self._listener.cancel()
        if self._ended is not None:
            self._ended.over()  # the task continues with the caller's code


def address(client: tuple[str, int] | None) -> str:
    """Format a client address as gRPC does, for example `ipv4:127.0.0.1:50322`."""
    if client is None:
        return ""
    host, port = client
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


_NAMES = ("DNS", "URI", "IP Address", "email")
"""The types of subject alternative names that have a string value."""


def identities(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names in a verified client certificate, in the format of `ssl.SSLSocket.getpeercert`."""
    if not certificate:
        return ()
    names = tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind in _NAMES)
    if names:
        return names
    subject = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return (subject["commonName"],) if "commonName" in subject else ()
