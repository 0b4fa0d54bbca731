"""A request over a stream of HTTP/2 and its response: what all have in common, and an inference without ASGI."""

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
    """The head of a request, as HTTP/1 has it. Requests whose header blocks are the same share it."""

    __slots__ = ("expects", "headers", "inflight", "meaning", "method", "route", "target", "version")

    def __init__(self, request: Request, service: Service) -> None:
        self.inflight = service.inflight
        self.method = request.method
        self.version = "2"
        self.target = request.path
        self.headers = headers_of(request)
        self.expects = (b"expect", b"100-continue") in request.fields
        self.route: Any = None
        """What the service serves directly; None for a request that takes ASGI."""
        self.meaning: Any = None
        """What the service reads in the headers of a request that it serves directly."""
        length = request.content_length
        if request.method == b"POST" and length is not None and length <= service.direct_bytes:
            self.route = service.route(request.path)
            self.meaning = service.read(self.headers)


def headers_of(request: Request) -> RawHeaders:
    """The headers as HTTP/1 has them: `:authority` is the host, and cookies are one (RFC 9113 section 8.2.3)."""
    cookies = [value for name, value in request.fields if name == b"cookie"]
    headers = [pair for pair in request.fields if pair[0] != b"cookie"]
    if cookies:
        headers.append((b"cookie", b"; ".join(cookies)))
    if request.authority:
        headers = [(b"host", request.authority), *(pair for pair in headers if pair[0] != b"host")]
    return headers


class StreamClient(OwnConnection):
    """The connection that the server of one request sees: it is lost with the stream, and ends nothing else."""

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
    def request_bytes(self) -> RequestBytes | None:  # the stream closes it at its end
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
    """The receiver of a request's body, and the sender of its response."""

    __slots__ = ("_openings", "added", "complete", "connection", "headers", "stream")

    def __init__(self, stream: Stream, head: Http2Head, openings: Openings, scheme: str) -> None:
        self.stream = stream
        self.headers = head.headers
        self.connection = StreamClient(stream, scheme, head.inflight)
        self.complete = False
        """Whether the response is whole."""
        self.added: tuple[bytes, bytes] | None = None
        """A header of every response to this request, in place of any other of its name."""
        self._openings = openings
        if not stream.remote_ended:
            stream.expecting_since = stream.opened_at
            if head.expects:
                stream.connection.write(stream.connection.headers(stream.id, CONTINUE, False))

    def lost(self) -> None:
        """The client has left."""
        self.connection.leave()

    def has_room(self, size: int, announced: int = 0) -> bool:
        """Count bytes of the body. If they are too many in this process, respond with status 503."""
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

    def overdue(self) -> None:
        """The client takes too long to send the body."""
        if self.stream.responded:
            self.stream.reset(ErrorCode.CANCEL)
        else:
            self.finish(408, [JSON], LATE)
        self.connection.leave()

    def block(self, status: int, headers: RawHeaders) -> bytes:
        """The header block of a response."""
        if (added := self.added) is not None:
            headers = [*(pair for pair in headers if pair[0] != added[0]), added]
        own = (pair for pair in headers if pair != CLOSE)  # HTTP/2 forbids the header
        return encode(((b":status", b"%d" % status), *self._openings.pairs, *own))

    def finish(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Send a whole response. Whether nothing of it waits for the client."""
        self.complete = True
        block = self.block(status, [*headers, (b"content-length", b"%d" % len(body))])
        return self.stream.respond(block, b"", body, b"")


class StreamExchange(Http2Request, Collected[StreamClient]):
    """One inference and its response, served once its body is whole."""

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
        if self.stream.taken > COUNTED_BYTES and not self.has_room(len(data)):
            return
        self._pieces.append(bytes(data))
        if end:
            self.stream.expecting_since = None
            self.stream.consumed(sum(map(len, self._pieces)))
            self._serve(self)

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
        self.connection.abort()
