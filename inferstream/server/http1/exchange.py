"""A request over a connection of ours, and its response: each response, or chunk of one, is one write."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from ...concurrency.scope import ClientLeft
from ..connections import OwnConnection
from .heads import RawHeaders, RequestHead
from .reading import Reading

CLOSE = (b"connection", b"close")

_NO_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]|^$")
_NO_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""


STATUS_LINES = {status: b"HTTP/1.1 %d %b\r\n" % (status, _phrase(status)) for status in range(100, 600)}


class Openings(dict[int, bytes]):
    """The status line and the headers of every response of a port by status, joined again when the date changes."""

    ahead = 0
    """Bytes of the status line of the next response that are sent."""

    def __init__(self, headers: RawHeaders, dated: bool) -> None:
        self._headers = headers
        self._dated = dated
        self.pairs: RawHeaders = []
        """Headers of every response."""
        self.common = b""
        """Their lines."""
        self.renew()

    def renew(self) -> None:
        """Take the date of this second."""
        dated = [(b"date", formatdate(usegmt=True).encode())] if self._dated else []
        pairs = [*dated, *self._headers]
        if pairs != self.pairs:
            self.common = b"".join(b"%b: %b\r\n" % pair for pair in pairs)
            self.pairs = pairs
            self.clear()

    def __missing__(self, status: int) -> bytes:
        joined = self[status] = STATUS_LINES[status] + self.common
        return joined


def refusal(status: int, message: str, more: bytes = b"") -> bytes:
    """A whole response that ends its connection, with `more` lines of headers."""
    body = b'{"error":"%s"}' % message.encode()
    return b"%b%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
        STATUS_LINES[status],
        more,
        len(body),
        body,
    )


def checked(headers: Sequence[tuple[bytes, bytes]]) -> RawHeaders:
    """Headers of an application, with lower-case names. Raises ValueError for one that would break the response."""
    for name, value in headers:
        if _NO_NAME.search(name) or _NO_VALUE.search(value):
            raise ValueError(f"the response header {name!r} has a wrong name or value")
    return [(name.lower(), value) for name, value in headers]


class Connected(OwnConnection, ABC):
    """The connection of a request, as its response uses it."""

    reading: Reading
    openings: Openings
    blocked: bool
    """Whether the client does not read."""

    @property
    @abstractmethod
    def ends_soon(self) -> bool:
        """Whether so little of the body is left that it may come behind the response, and other requests then."""

    @abstractmethod
    async def drain(self) -> None:
        """Wait until the client has read, or left."""

    @abstractmethod
    def serve(self, exchange: "DirectExchange") -> None:
        """Serve a request that is whole."""

    @abstractmethod
    def answered(self, keep_alive: bool) -> None:
        """Go on behind a whole response."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection once its client has what was written."""


class OpeningsAhead(Openings):
    """Status lines of which the first byte is sent: of the current response, not of those behind it."""

    ahead = 1

    def __init__(self, openings: Openings) -> None:
        self._openings = openings

    def __getitem__(self, status: int) -> bytes:
        ahead, self.ahead = self.ahead, 0
        return self._openings[status][ahead:]


class Http1Response:
    """The response to one request, as it is written."""

    __slots__ = (
        "_chunked",
        "_opening",
        "added",
        "complete",
        "connection",
        "headers",
        "keep_alive",
        "started",
        "streaming",
    )

    def __init__(self, connection: Connected, head: RequestHead, keep_alive: bool) -> None:
        self.connection = connection
        self.headers = head.headers
        self.keep_alive = keep_alive
        self.started = self.complete = False
        self.streaming = False
        """Whether the service watches that its client reads."""
        self.added: tuple[bytes, bytes] | None = None
        """A header of every response to this request, in place of any other of its name."""
        self._chunked = head.version == "1.1"
        self._opening: bytes | None = None
        """The head of the response, until it leaves with the first part of the body or alone."""

    def take(self, piece: bytes) -> None:
        """Take a part of the request's body."""
        raise NotImplementedError

    def end(self) -> None:
        """Take note that the request's body is whole."""
        raise NotImplementedError

    def lose(self) -> None:
        """Take note that the client has left; `connection.lost` says so too."""

    def probe(self) -> None:
        """Send a byte of the response ahead, or of its next chunk: the length of one may begin with zeros."""
        connection = self.connection
        if self._opening:
            opening, self._opening = self._opening, b""
            self._write([opening], False)
        elif connection.blocked:  # more than a byte waits
            return
        elif not self.started:
            connection.openings = OpeningsAhead(connection.openings)
            connection.transport.write(b"H")
        elif self._chunked:
            connection.transport.write(b"0")

    def _begin(self, status: int, headers: RawHeaders) -> list[bytes]:
        """The lines before those that frame the body."""
        if closes := CLOSE in headers:
            self.keep_alive = False
        if (added := self.added) is not None:
            headers = [*(pair for pair in headers if pair[0] != added[0]), added]
        parts = [self.connection.openings[status]]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        if not (self.keep_alive or closes):
            parts.append(b"connection: close\r\n")
        return parts

    def _frame(self, parts: list[bytes]) -> bytes:
        """The head of a response whose length is unknown. A client of HTTP/1.0 knows no chunks: it gets the bytes."""
        parts.append(b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n")
        return b"".join(parts)

    def _framed(self, chunk: bytes, last: bool) -> tuple[bytes, ...]:
        if not self._chunked:
            return (chunk,)
        end = b"0\r\n\r\n" if last else b""
        return (b"%x\r\n" % len(chunk), chunk, b"\r\n", end) if chunk else (end,)

    def _write(self, parts: list[bytes], last: bool) -> None:
        connection = self.connection
        if connection.lost:
            return
        self.started = True
        connection.transport.write(b"".join(parts))
        if last:
            self.complete = True
            connection.answered(self.keep_alive)


Connection = TypeVar("Connection", bound=OwnConnection)


class Collected(Generic[Connection]):
    """A request that is served once its body is whole."""

    __slots__ = ()

    connection: Connection
    _pieces: list[bytes]

    @property
    def scheme(self) -> str:
        return self.connection.scheme

    @property
    def left(self) -> bool:
        return self.connection.lost

    @property
    def peer(self) -> str:
        return self.connection.peer

    @property
    def identities(self) -> tuple[str, ...]:
        return self.connection.identities

    def count(self, size: int) -> None:
        self.connection.count(size)

    def body(self, limit: int) -> bytes:
        if self.connection.lost:
            raise ClientLeft
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class DirectExchange(Http1Response, Collected[Connected]):
    """One request that is served without ASGI, once its body is whole.

    It spares scope, events and messages, which cost 30 µs of a small request's 136.
    """

    __slots__ = ("_pieces", "head", "route", "task")

    def __init__(self, connection: Connected, head: RequestHead, keep_alive: bool) -> None:
        super().__init__(connection, head, keep_alive)
        self.route = head.route
        self.head = head.meaning
        self.task: asyncio.Task[Any] | None = None
        self._pieces: list[bytes] = []

    def take(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def end(self) -> None:
        self.connection.serve(self)

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None] | None:
        parts = self._begin(status, headers)
        parts += (b"content-length: %d\r\n\r\n" % len(body), body)
        return self._send(parts, True)

    def respond_nothing(self) -> Awaitable[None] | None:
        return self._send([*self._begin(204, []), b"\r\n"], True)

    def open(self, headers: RawHeaders) -> None:
        self.streaming = True
        self._opening = self._frame(self._begin(200, headers))

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        connection = self.connection
        if chunk and self.started and not (last or connection.blocked or connection.lost):
            # Of a token that leaves alone, this is the whole way to the system call. Exchanges are of HTTP/1.1.
            connection.transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            return None
        opening, self._opening = self._opening or b"", None
        return self._send([opening, *self._framed(chunk, last)], last)

    def abort(self) -> None:
        self.connection.transport.abort()

    def _send(self, parts: list[bytes], last: bool) -> Awaitable[None] | None:
        if self.connection.blocked and not self.connection.lost:
            return self._send_when_read(parts, last)
        # Without a coroutine, because most chunks are written at once, and each token is a chunk.
        self._write(parts, last)
        return None

    async def _send_when_read(self, parts: list[bytes], last: bool) -> None:
        await self.connection.drain()
        self._write(parts, last)
