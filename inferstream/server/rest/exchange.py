"""The exchange of an inference request and its response, and its implementation over ASGI."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self

from ...concurrency.inflight import COUNTED_BYTES
from ...concurrency.scope import ClientLeft
from ...concurrency.scope import Scope as TaskScope
from ...protos.json_checks import JsonCounter, JsonLimits
from ..connections import ScopeClient
from ..http1.exchange import CLOSE
from .messages import (
    COUNT_ON_ARRIVAL,
    INFLATE_IN_THREAD,
    JSON,
    LATE,
    Head,
    RawHeaders,
    Receive,
    Scope,
    Send,
    decompress_if_encoded,
    receive_all,
    respond,
)


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
        """The address of the client in gRPC format, such as `ipv4:127.0.0.1:50000`, or an empty string."""

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the verified client certificate."""

    def body(self, limit: int) -> bytes | Awaitable[bytes]:
        """Return the body, or only its beginning if it is larger than `limit` bytes. Raises ClientLeft."""

    def count(self, size: int) -> None:
        """Count `size` more bytes of memory for this request. Raises NoRoom."""

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None] | None:
        """Send a complete response.

        Returns None if it is sent, else an awaitable that completes when the client reads.
        """

    def respond_nothing(self) -> Awaitable[None] | None:
        """Send 204 No Content."""

    def open(self, headers: RawHeaders) -> None:
        """Start a stream with status 200. Its head is sent with the first chunk."""

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        """Send a chunk of a stream.

        Returns None if it is sent, else an awaitable that completes when the client reads.
        """

    def abort(self) -> None:
        """Close the connection without completing the response."""


async def decompress_body(exchange: Exchange, body: bytes, limit: int) -> bytes:
    """Decompress the body, and count the memory for the result.

    Raises PayloadTooLarge, UnsupportedEncoding, InvalidRequest or NoRoom.
    """
    if len(body) > INFLATE_IN_THREAD:
        text = await asyncio.to_thread(decompress_if_encoded, exchange.head, body, limit)
    else:
        text = decompress_if_encoded(exchange.head, body, limit)
    if len(text) > COUNTED_BYTES:
        exchange.count(len(text))
    return text


class SlowUpload(Exception):
    """The body arrives too slowly for the memory that it occupies."""


class AsgiExchange(ScopeClient):
    """An exchange over ASGI, on any ASGI server or for chunked or large requests on the HTTP port."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, task: asyncio.Task[Any], json: JsonLimits | None
    ) -> None:
        """`json` has the limits of a JSON body, or is None if the body is not JSON."""
        super().__init__(scope, receive, task)
        self._json = json
        self.headers: RawHeaders = scope["headers"]
        self.head = Head(self.headers)
        self.task: asyncio.Task[Any] | None = task
        self.scheme: str = scope.get("scheme", "http")
        self._multiplexed = scope.get("http_version", "1.1") >= "2"
        self._reading = TaskScope(task)
        self._send = send
        self._opening: RawHeaders | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def receiving(self) -> bool:
        """Whether the body is incomplete."""
        return self._reading.task is not None

    def time_out(self) -> None:
        """End the request because its body arrives too slowly."""
        self._reading.end(SlowUpload())

    async def body(self, limit: int) -> bytes:
        held = self.request_bytes  # None on the server's own ports, which count the bytes themselves
        counts = [self._json_counter(), None if held is None else lambda piece: held.add(len(piece))]
        try:
            with self._reading:
                body = await receive_all(
                    self._receive, limit, [count for count in counts if count is not None]
                )
        except SlowUpload:
            await self.respond(408, [JSON, CLOSE], LATE)
            raise ClientLeft from None
        if len(body) <= limit:
            self.listen()
        return body

    def _json_counter(self) -> Callable[[bytes], None] | None:
        """Return a function that checks the JSON of a large body as it arrives, or None for other bodies.

        A compressed body is checked after decompression.
        """
        head, json = self.head, self._json
        if json is None or head.encoding or (head.uploads and head.json_length is None):
            return None
        if head.content_length is not None and int(head.content_length) <= COUNT_ON_ARRIVAL:
            return None
        return JsonCounter(json, head.announced_json()).add

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        self.answered = True
        if self._multiplexed:  # HTTP/2 forbids the Connection header
            headers = [pair for pair in headers if pair[0] != CLOSE[0]]
        return respond(self._send, status, body, [*headers])

    async def respond_nothing(self) -> None:
        self.answered = True
        await self._send({"type": "http.response.start", "status": 204, "headers": []})
        await self._send({"type": "http.response.body", "body": b""})

    def open(self, headers: RawHeaders) -> None:
        self._opening = headers

    async def send(self, chunk: bytes, last: bool = False) -> None:
        # Always a coroutine, because ASGI does not report whether a message was sent immediately.
        self.answered = last
        if self._opening is not None:
            headers, self._opening = self._opening, None
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    def abort(self) -> None:
        self.drop()
