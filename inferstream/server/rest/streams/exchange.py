"""An inference over a stream without ASGI, served once its body is whole."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ....concurrency.scope import ClientLeft
from ...http1.responses import Openings
from ...http2.stream import Stream
from ..messages import RawHeaders
from .request import Http2Head, Http2Request


class StreamExchange(Http2Request):
    """One inference and its response."""

    __slots__ = ("_pieces", "_serve", "head", "route", "task")

    def __init__(
        self,
        stream: Stream,
        head: Http2Head,
        openings: Openings,
        scheme: str,
        serve: "Callable[[StreamExchange], None]",
    ) -> None:
        """`serve` begins to serve the request when it is whole."""
        super().__init__(stream, head, openings, scheme)
        self.route = head.route
        self.head = head.meaning
        self.task: asyncio.Task[Any] | None = None
        self._serve = serve
        self._pieces: list[bytes] = []

    def received(self, data: bytes | memoryview, end: bool) -> None:
        self._pieces.append(bytes(data))
        if end:
            self.stream.expecting_since = None
            self.stream.consumed(sum(map(len, self._pieces)))
            self._serve(self)

    @property
    def scheme(self) -> str:
        return self.client.scheme

    @property
    def left(self) -> bool:
        return self.client.lost

    @property
    def peer(self) -> str:
        return self.client.peer

    @property
    def identities(self) -> tuple[str, ...]:
        return self.client.identities

    def body(self, limit: int) -> bytes:
        if self.client.lost:
            raise ClientLeft
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None] | None:
        return None if self.finish(status, headers, body) else self.stream.sent()

    def respond_nothing(self) -> Awaitable[None] | None:
        self.complete = True
        self.stream.finish(self.block(204, []))
        return None

    def open(self, headers: RawHeaders) -> None:
        self.stream.open(self.block(200, headers))

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        stream = self.stream
        self.complete = last
        sent = stream.finish(b"", chunk) if last else stream.send(b"", chunk)
        return None if sent else stream.sent()

    def abort(self) -> None:
        self.client.abort()
