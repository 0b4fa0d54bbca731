"""REST requests over HTTP/2: the base class, and inference requests that are served without ASGI."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from ....concurrency.inflight import COUNTED_BYTES, InflightBytes, NoRoom, RequestBytes, Uploader
from ...connections import OwnConnection
from ...http1.exchange import CLOSE, Collected, Openings
from ...http1.service import Service
from ...http2.errors import ErrorCode
from ...http2.hpack import encode
from ...http2.request import Request
from ...http2.stream import Stream
from ..messages import JSON, LATE, RawHeaders

CONTINUE = encode(((b":status", b"100"),))
"""The interim response that lets a client send its body (RFC 9110 section 15.2.1)."""


class Http2Head:
    """The head of a request in HTTP/1 terms. Requests with the same header block share it."""

    __slots__ = ("expects", "headers", "inflight", "meaning", "method", "route", "target", "version")

    def __init__(self, request: Request, service: Service) -> None:
        self.inflight = service.inflight
        self.method = request.method
        self.version = "2"
        self.target = request.path
        self.headers = to_http1_headers(request)
        self.expects = (b"expect", b"100-continue") in request.fields
        self.route: Any = None
        """The route of a request that is served directly, or None if the request goes through ASGI."""
        self.meaning: Any = None
        """The parsed headers of a request that is served directly."""
        length = request.content_length
        if request.method == b"POST" and length is not None and length <= service.direct_bytes:
            self.route = service.route(request.path)
            self.meaning = service.read(self.headers)


def to_http1_headers(request: Request) -> RawHeaders:
    """Convert headers to HTTP/1: `:authority` to Host, cookies joined (RFC 9113 section 8.2.3)."""
    cookies = [value for name, value in request.fields if name == b"cookie"]
    headers = [pair for pair in request.fields if pair[0] != b"cookie"]
    if cookies:
        headers.append((b"cookie", b"; ".join(cookies)))
    if request.authority:
        headers = [(b"host", request.authority), *(pair for pair in headers if pair[0] != b"host")]
    return headers


class StreamClient(OwnConnection):
    """The connection of one request. It is lost when its stream closes. `abort` only resets the stream."""

    __slots__ = ("_stream", "peername", "transport")

    def __init__(self, stream: Stream, scheme: str, inflight: InflightBytes) -> None:
        self._stream = stream
        self.inflight = inflight
        self._task = None
        connection = stream.connection
        self.loop = connection.loop
        self.transport, self.peername = connection.transport, connection.peername
        self.lost = False
        self.scheme = scheme

    @property
    def request_bytes(self) -> RequestBytes | None:  # closed by the stream when it ends
        return cast("RequestBytes | None", self._stream.held)

    @request_bytes.setter
    def request_bytes(self, held: RequestBytes | None) -> None:
        self._stream.held = held

    @property
    def upload(self) -> Uploader:
        return self._stream

    def abort(self) -> None:
        self._stream.reset(ErrorCode.CANCEL)
        self.leave()


class Http2Request:
    """A request and its response: receives the body and sends the response."""

    __slots__ = ("_openings", "added", "complete", "connection", "headers", "stream")

    def __init__(self, stream: Stream, head: Http2Head, openings: Openings, scheme: str) -> None:
        self.stream = stream
        self.headers = head.headers
        self.connection = StreamClient(stream, scheme, head.inflight)
        self.complete = False
        """Whether the response is complete."""
        self.added: tuple[bytes, bytes] | None = None
        """A header to add to the response, replacing any other header of that name."""
        self._openings = openings
        if not stream.remote_ended:
            stream.expecting_since = stream.opened_at
            if head.expects:
                stream.connection.write(stream.connection.encode_headers(stream.id, CONTINUE, False))

    def lost(self) -> None:
        """Handle the client's disconnect."""
        self.connection.leave()

    def has_room(self, size: int, announced: int = 0) -> bool:
        """Count bytes of the body. If too many are in flight, send status 503 and return False."""
        try:
            self.connection.count(size, announced)
        except NoRoom as error:
            document = b'{"error":"%b"}' % error.message.encode()
            if self.stream.responded:
                self.connection.abort()
                return False
            self.finish(503, [JSON, (b"retry-after", b"%d" % error.retry_after)], document)
            self.lost()
            return False
        return True

    def time_out(self) -> None:
        """Respond with status 408, because the client sends the body too slowly."""
        if self.stream.responded:
            self.stream.reset(ErrorCode.CANCEL)
        else:
            self.finish(408, [JSON], LATE)
        self.connection.leave()

    def encode_head(self, status: int, headers: RawHeaders) -> bytes:
        """Encode the header block of a response."""
        if (added := self.added) is not None:
            headers = [*(pair for pair in headers if pair[0] != added[0]), added]
        own = (pair for pair in headers if pair != CLOSE)  # HTTP/2 forbids the Connection header
        return encode(((b":status", b"%d" % status), *self._openings.pairs, *own))

    def finish(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Send a complete response. Returns False if a part of it waits for the client."""
        self.complete = True
        block = self.encode_head(status, [*headers, (b"content-length", b"%d" % len(body))])
        return self.stream.respond(block, b"", body, b"")


class StreamExchange(Http2Request, Collected[StreamClient]):
    """One inference request and its response. It is served when its body is complete."""

    __slots__ = ("_pieces", "_serve", "head", "route", "task")

    def __init__(
        self,
        stream: Stream,
        head: Http2Head,
        openings: Openings,
        scheme: str,
        serve: "Callable[[StreamExchange], None]",
    ) -> None:
        """`serve` is called when the body is complete."""
        super().__init__(stream, head, openings, scheme)
        self.route = head.route
        self.head = head.meaning
        self.task: asyncio.Task[Any] | None = None
        self._serve = serve
        self._pieces: list[bytes] = []

    def receive_data(self, data: bytes | memoryview, end: bool) -> None:
        if self.stream.taken > COUNTED_BYTES and not self.has_room(len(data)):
            return
        self._pieces.append(bytes(data))
        if end:
            self.stream.expecting_since = None
            self.stream.return_credit(sum(map(len, self._pieces)))
            self._serve(self)

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None] | None:
        return None if self.finish(status, headers, body) else self.stream.drain()

    def respond_nothing(self) -> Awaitable[None] | None:
        self.complete = True
        self.stream.finish(self.encode_head(204, []))
        return None

    def open(self, headers: RawHeaders) -> None:
        self.stream.open(self.encode_head(200, headers))

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        stream = self.stream
        self.complete = last
        sent = stream.finish(b"", chunk) if last else stream.send(b"", chunk)
        return None if sent else stream.drain()

    def abort(self) -> None:
        self.connection.abort()
