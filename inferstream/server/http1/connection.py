"""One connection of HTTP/1: its requests, one after the other, in bounded memory."""

import asyncio
import logging
from typing import cast

from ...concurrency.inflight import COUNTED_BYTES, NoRoom, Uploader
from .cycle import Cycle, scope_of
from .exchange import DirectExchange, Http1Response, refusal
from .guard import FULL, LINGER_BYTES, STOPS, TOO_SLOW, Watch
from .half_close import HalfClosable
from .heads import PREFACE, RequestHead, RequestRefused
from .incoming import AT_ONCE, IncomingBytes
from .reading import Reading
from .service import PortState, Successor

logger = logging.getLogger("inferstream.http1")

UNPARSED = 64 * 1024
"""Bytes behind a request without a response, above which no more are read. One request is parsed at a time."""


class Http1Connection(HalfClosable, asyncio.Protocol):
    """One connection. Code that serves a request may `hold` it: a client that leaves cancels the task.

    The service serves small inferences directly, when the whole body has arrived; an ASGI application serves the rest.
    """

    def __init__(self, shared: PortState) -> None:
        self._shared = shared
        self._service = shared.service
        self.inflight = shared.service.inflight
        self.request_bytes = None
        self.openings = shared.openings
        self.scheme = shared.scheme
        self.loop = asyncio.get_running_loop()
        self.watch = Watch(shared.limits)
        self.lost = self.blocked = self.closing = False
        self.fresh = True
        """Whether the next bytes are expected soon: no request has come, or a part of a head."""
        self._incoming = IncomingBytes()
        self._has_place = True
        self._current: Http1Response | None = None
        """The request that is being received or served."""
        self._dropped = 0
        self._task = None
        self._readable: asyncio.Event | None = None

    # What the transport does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peername = transport.get_extra_info("peername")
        self.reading = Reading(self.transport, self._advance, self.half_close)
        self._has_place = self._shared.places.enter(self)
        if self._shared.stopped:  # its TLS handshake took longer than the stop
            self.close()
        elif self._shared.chose_http2(self.transport):
            self._speak_http2()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.places.leave(self)
        self.reading.close()
        self.resume_writing()
        self.leave()
        self.closing = True
        self._incoming.drop()
        self._current = None  # what refers to this connection would wait for the garbage collector

    def pause_writing(self) -> None:
        self.blocked = True

    def resume_writing(self) -> None:
        self.blocked = False
        if self._readable is not None:
            self._readable.set()
            self._readable = None

    async def drain(self) -> None:
        """Wait until the client has read, or left."""
        while self.blocked and not self.lost:
            if self._readable is None:
                self._readable = asyncio.Event()
            await self._readable.wait()

    def data_received(self, data: bytes) -> None:
        incoming = self._incoming
        if self._current is None:
            if (body := incoming.again(data)) is not None and not self.closing:
                head = incoming.kept
                assert head is not None
                if head.fixed or self._is_direct(head):
                    exchange = self._current = DirectExchange(self, head, True)
                    self.fresh = False
                    exchange.take(body)
                    self.serve(exchange)
                    return
        elif incoming.part(data):
            if self._current.complete or self._has_room(len(data)):
                self._current.take(data)
            return
        if self.closing:
            self._drop(data)
            return
        incoming.unread += data
        self._advance()

    # What has arrived

    def _advance(self) -> None:
        """Read as far as the requests before this one allow."""
        incoming = self._incoming
        try:
            while incoming.unread and not self.closing:
                if self._current is None:
                    if not self._take_head():
                        break
                elif not incoming.in_body:  # a pipelined request waits for its turn
                    break
                else:
                    pieces = incoming.body()
                    if incoming.in_body and not (
                        self._current.complete or self._has_room(sum(map(len, pieces)))
                    ):
                        break
                    for piece in pieces:
                        self._current.take(piece)
                    if not incoming.in_body:
                        self._end_body()
                        continue
                    if len(pieces) == AT_ONCE:
                        self.loop.call_soon(self._advance)
                    break
        except RequestRefused as refused:
            self.refuse(refused.status, refused.message)
        if self.is_half_closed and self._current is None and not self.closing:
            self.close()
        if len(incoming.unread) > UNPARSED:
            self.reading.hold(self)
        elif self.reading.held:
            self.reading.release(self)

    def _take_head(self) -> bool:
        """Begin a request; False if its head is not whole. Raises RequestRefused."""
        if self._shared.http2 is not None and self._incoming.unread.startswith(PREFACE):
            self._speak_http2()
            return False
        taken = self._incoming.head()
        if taken is None:
            if self._incoming.unread and not self.fresh:
                self.fresh = True
                self.watch.since = None
            return False
        self.fresh = False
        self._begin(*taken)
        return True

    def _begin(self, head: RequestHead, raw: bytes) -> None:
        if not self._has_place and head.target.partition(b"?")[0] not in self._service.probes:
            raise RequestRefused(503, FULL)
        if head.upgrade == b"websocket" and self._service.websocket is not None:
            if self._shared.draining:
                raise RequestRefused(503, STOPS)
            self._upgrade(raw)
            return
        if head.length > COUNTED_BYTES and not self._has_room(0, head.length):
            return
        keep_alive = head.keep_alive and self._has_place and not self._shared.leaving
        if self._is_direct(head):
            if head is not self._incoming.kept:
                head.meaning = self._service.read(head.headers)
                head.fixed = self._service.is_fixed(head.route)
                if keep_alive:
                    self._incoming.keep(head, raw)
            self._current = DirectExchange(self, head, keep_alive)
        else:
            scope = scope_of(self, head)
            cycle = self._current = Cycle(self, head, keep_alive)
            task = self.loop.create_task(cycle.run(self._service.app, scope))
            self._shared.tasks.add(task)
            task.add_done_callback(self._shared.tasks.discard)
        self._incoming.expect(head)
        self.watch.since = None
        if not self.receiving:
            self._end_body()

    def _has_room(self, size: int, announced: int = 0) -> bool:
        """Count bytes of a body. If they are too many in this process, end the connection with status 503."""
        try:
            self.count(size, announced)
        except NoRoom as error:
            self.refuse(503, error.message, b"retry-after: %d\r\n" % error.retry_after)
            return False
        return True

    def _is_direct(self, head: RequestHead) -> bool:
        """Whether the service serves a request without ASGI."""
        if (
            head.method != b"POST"
            or head.chunked
            or head.length > self._service.direct_bytes
            or head.version != "1.1"
            or head.expects
            or head.upgrade is not None
        ):
            return False
        head.route = self._service.route(head.target)
        return head.route is not None

    def _end_body(self) -> None:
        assert self._current is not None
        if self._current.complete:  # the response came first
            self._next()
        else:
            self._current.end()

    def _speak_http2(self) -> None:
        """Let HTTP/2 have the connection, from its preface on."""
        assert self._shared.http2 is not None
        self._become(self._shared.http2(self._shared.places.leave, not self._has_place))

    def _upgrade(self, raw: bytes) -> None:
        """Let a WebSocket have the connection, from its request on."""
        assert self._service.websocket is not None
        self._become(self._service.websocket(self._shared.places.leave), raw)

    def _become(self, protocol: Successor, raw: bytes = b"") -> None:
        self.closing = True
        self.reading.close()
        received = raw, bytes(self._incoming.unread)
        self._incoming.drop()
        self._shared.places.become(self, protocol)
        self.transport.set_protocol(cast(asyncio.Protocol, protocol))
        protocol.connection_made(self.transport)
        for data in filter(None, received):
            protocol.data_received(data)

    # What is served

    @property
    def upload(self) -> Uploader:
        return self

    @property
    def receiving(self) -> bool:
        return self._incoming.in_body

    @property
    def received(self) -> int:
        return self._incoming.received

    @property
    def ends_soon(self) -> bool:
        return self._incoming.ends_soon

    @property
    def serving(self) -> bool:
        return self._current is not None

    @property
    def streaming(self) -> bool:
        return self._current is not None and self._current.streaming

    def serve(self, exchange: DirectExchange) -> None:
        exchange.task = self.loop.create_task(self._serve(exchange))

    async def _serve(self, exchange: DirectExchange) -> None:
        task = exchange.task
        assert task is not None
        self._shared.tasks.add(task)
        self._task = task
        try:
            await self._service.infer(exchange)
        except Exception:  # no task awaits this one; without the close its client would wait
            logger.exception("a REST call failed")
            self.close()
        finally:
            if self._task is task:  # `release`, without its frame
                self._task = None
            self._shared.tasks.discard(task)

    def answered(self, keep_alive: bool) -> None:
        """Go on behind a whole response."""
        if self.request_bytes is not None:
            self.free()
        if not keep_alive:
            if self.receiving or self._incoming.unread:
                self._linger()
            else:
                self.close()
        elif not self._incoming.in_body:
            self._next()

    def _next(self) -> None:
        self._current = None
        self.watch.since = None
        if self._incoming.unread:
            self.loop.call_soon(self._advance)
        elif self.is_half_closed:
            self.close()

    # The end

    def leave(self) -> None:
        super().leave()
        if self._current is not None:
            self._current.lose()

    def refuse(self, status: int, message: str, headers: bytes = b"") -> None:
        """End the connection with a response of its own, unless another one has begun."""
        if self.closing:
            return
        if self._current is not None and self._current.started:
            self.close()
            return
        self.transport.write(refusal(status, message, headers)[self.openings.ahead :])
        self.leave()
        self._linger()

    def time_out(self) -> None:
        """End a connection whose client takes too long, with status 408 if it has begun a request."""
        if self._incoming.unread or self.receiving:
            self.refuse(408, TOO_SLOW)
        else:
            self.close()

    def shutdown(self, idle: bool = True) -> None:
        """Close with the response that is being written or comes next; if `idle`, at once when no request has come."""
        self._incoming.kept = None
        if self._current is not None:
            self._current.keep_alive = False
        elif idle and (self._shared.stopped or not self._incoming.unread):
            self.close()

    def close(self) -> None:
        """Close the connection once its client has what was written."""
        self.closing = True
        self.watch.since = None
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def _linger(self) -> None:
        """Say no more, and drop what still comes: a close with unread bytes would take the response back."""
        self.closing = True
        self._incoming.drop()
        self.watch.since = None
        if self.transport.is_closing():
            return
        self.reading.resume()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped > LINGER_BYTES:
            self.transport.abort()
