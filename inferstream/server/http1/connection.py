"""An HTTP/1 connection, which serves one request after another in bounded memory."""

import asyncio
import logging
from typing import cast

from ...concurrency.inflight import COUNTED_BYTES, NoRoom, Uploader
from .cycle import Cycle, build_scope
from .exchange import DirectExchange, Http1Response, refusal
from .guard import FULL, LINGER_BYTES, STOPS, TOO_SLOW, Watch
from .half_close import HalfClosable
from .heads import PREFACE, RequestHead, RequestRefused
from .incoming import AT_ONCE, IncomingBytes
from .reading import Reading
from .service import PortState, Successor

logger = logging.getLogger("inferstream.http1")

UNPARSED = 64 * 1024
"""Unparsed bytes above which reading pauses. Pipelined requests are parsed one at a time."""


class Http1Connection(HalfClosable, asyncio.Protocol):
    """An HTTP/1 connection. Code that serves a request can call `hold` so that a disconnect cancels its task.

    The service handles small inferences directly once the whole body has arrived. An ASGI application handles
    all other requests.
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
        """Whether the header timeout applies: no request, or only a part of its head, has been received."""
        self._incoming = IncomingBytes()
        self._has_place = True
        self._current: Http1Response | None = None
        """The request that is being received or served."""
        self._dropped = 0
        self._task = None
        self._readable: asyncio.Event | None = None

    # Transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peername = transport.get_extra_info("peername")
        self.reading = Reading(self.transport, self._advance, self.half_close)
        self._has_place = self._shared.places.enter(self)
        if self._shared.stopped:  # the TLS handshake took longer than the stop
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
        self._current = None  # breaks a reference cycle, which the garbage collector would have to free

    def pause_writing(self) -> None:
        self.blocked = True

    def resume_writing(self) -> None:
        self.blocked = False
        if self._readable is not None:
            self._readable.set()
            self._readable = None

    async def drain(self) -> None:
        """Wait until the client reads or disconnects."""
        while self.blocked and not self.lost:
            if self._readable is None:
                self._readable = asyncio.Event()
            await self._readable.wait()

    def data_received(self, data: bytes) -> None:
        incoming = self._incoming
        if self._current is None:
            if (body := incoming.match_known(data)) is not None and not self.closing:
                head = incoming.kept
                assert head is not None
                if head.fixed or self._is_direct(head):
                    exchange = self._current = DirectExchange(self, head, True)
                    self.fresh = False
                    exchange.take(body)
                    self.serve(exchange)
                    return
        elif incoming.count_part(data):
            if self._current.complete or self._has_room(len(data)):
                self._current.take(data)
            return
        if self.closing:
            self._drop(data)
            return
        incoming.unread += data
        self._advance()

    # Received bytes

    def _advance(self) -> None:
        """Parse as much as the unfinished requests allow."""
        incoming = self._incoming
        try:
            while incoming.unread and not self.closing:
                if self._current is None:
                    if not self._take_head():
                        break
                elif not incoming.in_body:  # a pipelined request waits
                    break
                else:
                    pieces = incoming.take_body()
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
        """Start a request. Returns False if its head is incomplete. Raises RequestRefused."""
        if self._shared.http2 is not None and self._incoming.unread.startswith(PREFACE):
            self._speak_http2()
            return False
        taken = self._incoming.take_head()
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
            scope = build_scope(self, head)
            cycle = self._current = Cycle(self, head, keep_alive)
            task = self.loop.create_task(cycle.run(self._service.app, scope))
            self._shared.tasks.add(task)
            task.add_done_callback(self._shared.tasks.discard)
        self._incoming.expect(head)
        self.watch.since = None
        if not self.receiving:
            self._end_body()

    def _has_room(self, size: int, announced: int = 0) -> bool:
        """Count bytes of a body. Returns False if too many are in flight in this process.

        The connection is then closed with status 503.
        """
        try:
            self.count(size, announced)
        except NoRoom as error:
            self.refuse(503, error.message, b"retry-after: %d\r\n" % error.retry_after)
            return False
        return True

    def _is_direct(self, head: RequestHead) -> bool:
        """Whether the service handles the request without ASGI."""
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
        if self._current.complete:  # the response was sent before the body ended
            self._start_next()
        else:
            self._current.end()

    def _speak_http2(self) -> None:
        """Hand the connection over to HTTP/2, with the bytes that have not been parsed."""
        assert self._shared.http2 is not None
        self._hand_over(self._shared.http2(self._shared.places.leave, not self._has_place))

    def _upgrade(self, raw: bytes) -> None:
        """Hand the connection over to a WebSocket, starting with the upgrade request."""
        assert self._service.websocket is not None
        self._hand_over(self._service.websocket(self._shared.places.leave), raw)

    def _hand_over(self, protocol: Successor, raw: bytes = b"") -> None:
        self.closing = True
        self.reading.close()
        received = raw, bytes(self._incoming.unread)
        self._incoming.drop()
        self._shared.places.replace(self, protocol)
        self.transport.set_protocol(cast(asyncio.Protocol, protocol))
        protocol.connection_made(self.transport)
        for data in filter(None, received):
            protocol.data_received(data)

    # Responses

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
        except Exception:  # nothing awaits this task, so the client would wait forever
            logger.exception("REST call failed")
            self.close()
        finally:
            if self._task is task:  # `release`, inlined
                self._task = None
            self._shared.tasks.discard(task)

    def finish_response(self, keep_alive: bool) -> None:
        """Close the connection or continue with the next request after a complete response."""
        if self.request_bytes is not None:
            self.free()
        if not keep_alive:
            if self.receiving or self._incoming.unread:
                self._linger()
            else:
                self.close()
        elif not self._incoming.in_body:
            self._start_next()

    def _start_next(self) -> None:
        self._current = None
        self.watch.since = None
        if self._incoming.unread:
            self.loop.call_soon(self._advance)
        elif self.is_half_closed:
            self.close()

    # Closing

    def leave(self) -> None:
        super().leave()
        if self._current is not None:
            self._current.lose()

    def refuse(self, status: int, message: str, headers: bytes = b"") -> None:
        """Close the connection with an error response, unless another response has started."""
        if self.closing:
            return
        if self._current is not None and self._current.started:
            self.close()
            return
        self.transport.write(refusal(status, message, headers)[self.openings.ahead :])
        self.leave()
        self._linger()

    def time_out(self) -> None:
        """Close a connection whose client is too slow, with status 408 if a request has started."""
        if self._incoming.unread or self.receiving:
            self.refuse(408, TOO_SLOW)
        else:
            self.close()

    def shutdown(self, idle: bool = True) -> None:
        """Close after the current or next response.

        If `idle` is true, close an idle connection immediately.
        """
        self._incoming.kept = None
        if self._current is not None:
            self._current.keep_alive = False
        elif idle and (self._shared.stopped or not self._incoming.unread):
            self.close()

    def close(self) -> None:
        """Close the connection once the written bytes are sent."""
        self.closing = True
        self.watch.since = None
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def _linger(self) -> None:
        """Stop sending, and discard incoming bytes.

        Closing with unread bytes would reset the connection, and the client could lose the response.
        """
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
