"""The exchange of an inference request and its response, and the exchange over ASGI."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, Self

from ...concurrency.interruption import Interruption
from ..connections import SCOPE_KEY, OwnConnection, address
from ..http1.responses import CLOSE
from .messages import Head, RawHeaders, Receive, Scope, Send, receive_all, respond


class Exchange(Protocol):
    """One request and its response over HTTP."""

    headers: RawHeaders
    head: Head
    task: asyncio.Task[Any] | None
    """The task that serves the request, or None for the current task."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""

    @property
    def left(self) -> bool:
        """Whether the client has closed the connection."""

    @property
    def peer(self) -> str:
        """The address of the client in gRPC's form, or an empty text."""

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""

    def body(self, limit: int) -> bytes | Awaitable[bytes]:
        """The whole body, or the beginning of one larger than `limit`. Raises ClientLeft."""

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None] | None:
        """Send a whole response; None if it is sent, else an awaitable that sends it when the client reads."""

    def respond_nothing(self) -> Awaitable[None] | None:
        """Send a response with status 204, which has no body."""

    def open(self, headers: RawHeaders) -> None:
        """Begin a stream with status 200; its head is sent with the first chunk."""

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        """Send a chunk of a stream; None if it is sent, else an awaitable that sends it when the client reads."""

    def abort(self) -> None:
        """Drop the client."""


class AsgiExchange:
    """An exchange over ASGI: under any server, and here for chunked, pipelined and large requests.

    A foreign connection reports a disconnect only as a message. A second task awaits that message from the end of
    the request's body until the response is sent, and cancels the task that serves the request.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, task: asyncio.Task[Any]) -> None:
        self.headers: RawHeaders = scope["headers"]
        self.head = Head(self.headers)
        self.task: asyncio.Task[Any] | None = task
        self._serving = task
        self._connection: OwnConnection | None = scope.get(SCOPE_KEY)
        self._client: tuple[str, int] | None = scope.get("client")
        self.scheme: str = scope.get("scheme", "http")
        self._multiplexed = scope.get("http_version", "1.1") >= "2"
        self._receive = receive
        self._send = send
        self._opening: RawHeaders | None = None
        self._left = self._complete = False
        self._listener: asyncio.Task[None] | None = None
        self._interruption: Interruption | None = None

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            self._connection.hold(self._serving)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._complete = True
        if self._connection is not None:
            self._connection.release(self._serving)
        if self._listener is not None:
            self._listener.cancel()
        if self._interruption is not None:
            self._interruption.take_back()  # the task continues with the code around this application

    @property
    def left(self) -> bool:
        return self._left if self._connection is None else self._connection.lost

    @property
    def peer(self) -> str:
        return address(self._client)

    @property
    def identities(self) -> tuple[str, ...]:
        return () if self._connection is None else self._connection.identities

    def body(self, limit: int) -> Awaitable[bytes]:
        received = receive_all(self._receive, limit)
        return received if self._connection is not None else self._then_listen(received, limit)

    async def _then_listen(self, received: Awaitable[bytes], limit: int) -> bytes:
        body = await received
        if len(body) <= limit:
            self._listener = self._serving.get_loop().create_task(self._listen())
        return body

    async def _listen(self) -> None:
        """Wait for the disconnect. Servers send this message at the end of the response too."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._interrupt()

    def _interrupt(self) -> None:
        if not self._left:
            self._left = True
            self._interruption = Interruption(self._serving, lambda: not self._complete)

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        self._complete = True
        if self._multiplexed:  # HTTP/2 forbids the header
            headers = [pair for pair in headers if pair[0] != CLOSE[0]]
        return respond(self._send, status, body, [*headers])

    async def respond_nothing(self) -> None:
        self._complete = True
        await self._send({"type": "http.response.start", "status": 204, "headers": []})
        await self._send({"type": "http.response.body", "body": b""})

    def open(self, headers: RawHeaders) -> None:
        self._opening = headers

    async def send(self, chunk: bytes, last: bool = False) -> None:
        # Always a coroutine, because ASGI does not report that a message is sent.
        self._complete = last
        if self._opening is not None:
            headers, self._opening = self._opening, None
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.transport.abort()
        else:
            self._interrupt()  # ASGI cannot close the connection; its server does
