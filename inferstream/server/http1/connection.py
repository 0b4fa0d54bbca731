"""One connection of HTTP/1: its requests, one after the other, in bounded memory."""

import asyncio
import logging
from typing import Any, cast

from ...concurrency.interruption import Interruption
from ..connections import address, identities
from .bodies import ChunkedBody
from .cycle import Cycle, scope_of
from .exchange import Exchange, Response
from .guard import FULL, LINGER_BYTES, TOO_SLOW, Watch
from .heads import (
    END,
    MAX_HEADER_BYTES,
    Refused,
    RequestHead,
    check_beginning,
    parse_head,
)
from .reading import Reading
from .responses import refusal
from .service import Shared

logger = logging.getLogger("inferstream.http1")

UNREAD = 64 * 1024
"""Bytes behind a request without a response, above which no more are read. One request is parsed at a time."""

REPEATED_BYTES = 4096
"""The longest head that is kept, because most clients repeat theirs."""


class Connection(asyncio.Protocol):
    """One connection.

    The service serves a small inference directly when the whole body has arrived; an ASGI application serves all
    others. Who serves a request may `hold` the connection, which cancels the task when the client leaves.
    """

    transport: asyncio.Transport
    reading: Reading

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._service = shared.service
        self.openings = shared.openings
        self.scheme = shared.scheme
        self.loop = asyncio.get_running_loop()
        self.watch = Watch(shared.limits)
        self.client: tuple[str, int] | None = None
        self.lost = self.blocked = self.closing = False
        self.fresh = True
        """Whether the next bytes are expected soon: no request has come, or a part of a head."""
        self.received = 0
        """Bytes of the body that is being received."""
        self._has_place = True
        self._repeated: RequestHead | None = None
        self._raw = b"\0"
        """The bytes of that head."""
        self._current: Response | None = None
        """The request that is being received or served."""
        self._unread = bytearray()
        self._left = 0
        """Bytes of a body of known length that have not come."""
        self._chunks: ChunkedBody | None = None
        self._dropped = 0
        self._task: asyncio.Task[Any] | None = None
        self._readable: asyncio.Event | None = None

    # What the transport does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.reading = Reading(self.transport, self._advance)
        name = transport.get_extra_info("peername")
        self.client = (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
        self._has_place = self._shared.places.enter(self)
        if self._shared.stopped:  # its TLS handshake took longer than the stop
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.places.leave(self)
        self.reading.close()
        self.resume_writing()
        self._leave()
        # Nothing that refers to this connection is left for the garbage collector.
        self._current = None

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
        if self._current is None:
            repeated = self._repeated
            if (
                repeated is not None
                and len(data) == len(self._raw) + repeated.length
                and data.startswith(self._raw)
                and not (self._unread or self.closing)
                and (route := self._service.route(repeated.target)) is not None
            ):
                repeated.route = route
                exchange = self._current = Exchange(self, repeated, repeated.keep_alive)
                exchange.take(data[len(self._raw) :])
                self.fresh = False
                self.serve(exchange)
                return
        elif len(data) < self._left and not self._unread:
            self._take(data)
            return
        if self.closing:
            self._drop(data)
            return
        self._unread += data
        self._advance()

    # What has arrived

    def _advance(self) -> None:
        """Read as far as the requests before this one allow."""
        unread = self._unread
        try:
            while unread and not self.closing:
                if self._left:
                    piece = bytes(memoryview(unread)[: self._left])
                    del unread[: len(piece)]
                    self._take(piece)
                elif self._chunks is not None:
                    for piece in self._chunks.take(unread):
                        self._take(piece)
                    if not self._chunks.ended:
                        break
                    self._chunks = None
                    self._end_body()
                elif self._current is not None or not self._take_head(unread):
                    break
        except Refused as refused:
            self.refuse(refused.status, refused.message)
        if len(unread) > UNREAD:
            self.reading.hold(self)
        elif self.reading.held:
            self.reading.release(self)

    def _take_head(self, unread: bytearray) -> bool:
        """Begin a request; False if its head is not whole. Raises Refused."""
        while unread.startswith(b"\r\n"):
            del unread[:2]
        end = unread.find(END, 0, MAX_HEADER_BYTES)
        if not self.fresh:
            self.fresh = True
            self.watch.begin()
        if end < 0:
            if unread:
                check_beginning(bytes(unread))
            return False
        raw = bytes(memoryview(unread)[: end + len(END)])
        head = self._repeated
        if head is None or raw != self._raw:
            head = parse_head(raw)
        del unread[: len(raw)]
        self.fresh = False
        self._begin(head, raw)
        return True

    def _begin(self, head: RequestHead, raw: bytes) -> None:
        if not self._has_place and head.target.partition(b"?")[0] not in self._service.probes:
            raise Refused(503, FULL)
        if head.upgrade == b"websocket" and self._service.websocket is not None:
            self._upgrade(raw)
            return
        keep_alive = head.keep_alive and self._has_place and not self._shared.stopped
        self.received = 0
        if self._is_direct(head):
            if head is not self._repeated:
                head.meaning = self._service.read(head.headers)
                if len(raw) <= REPEATED_BYTES and self._has_place:
                    self._repeated, self._raw = head, raw
            self._current = Exchange(self, head, keep_alive)
        else:
            scope = scope_of(self, head)
            cycle = self._current = Cycle(self, head, keep_alive)
            task = self.loop.create_task(cycle.run(self._service.app, scope))
            self._shared.tasks.add(task)
            task.add_done_callback(self._shared.tasks.discard)
        self._left = head.length
        self._chunks = ChunkedBody() if head.chunked else None
        self.watch.begin()
        if not self.receiving:
            self._end_body()

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

    def _take(self, piece: bytes) -> None:
        assert self._current is not None
        self.received += len(piece)
        self._current.take(piece)
        if self._left:
            self._left -= len(piece)
            if not self._left:
                self._end_body()

    def _end_body(self) -> None:
        assert self._current is not None
        if self._current.complete:  # the response came first
            self._next()
        else:
            self._current.end()

    def _upgrade(self, raw: bytes) -> None:
        """Let a WebSocket have the connection, from its request on."""
        assert self._service.websocket is not None
        self.closing = True
        self.reading.close()
        behind = bytes(self._unread)
        self._unread.clear()
        protocol = self._service.websocket(self._shared.places.leave)
        self._shared.places.become(self, protocol)
        self.transport.set_protocol(cast(asyncio.Protocol, protocol))
        protocol.connection_made(self.transport)
        protocol.data_received(raw)
        if behind:
            protocol.data_received(behind)

    # What is served

    @property
    def receiving(self) -> bool:
        """Whether a body has not arrived completely."""
        return self._left > 0 or self._chunks is not None

    @property
    def ends_soon(self) -> bool:
        """Whether so little of the body is left that it may come behind the response, and other requests then."""
        return self._chunks is None and self._left <= UNREAD

    @property
    def serving(self) -> bool:
        return self._current is not None

    @property
    def streaming(self) -> bool:
        """Whether who serves the request watches that the client reads."""
        return self._current is not None and self._current.streaming

    @property
    def server(self) -> tuple[str, int] | None:
        name = self.transport.get_extra_info("sockname")
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None

    @property
    def peer(self) -> str:
        return address(self.client)

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""
        return identities(self.transport.get_extra_info("peercert"))

    def serve(self, exchange: Exchange) -> None:
        exchange.task = self.loop.create_task(self._serve(exchange))

    async def _serve(self, exchange: Exchange) -> None:
        task = exchange.task
        assert task is not None
        self._shared.tasks.add(task)
        self.hold(task)
        try:
            await self._service.infer(exchange)
        except Exception:  # no task awaits this one; without the close its client would wait
            logger.exception("a REST call failed")
            self.transport.close()
        finally:
            self.release(task)
            self._shared.tasks.discard(task)

    def hold(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def release(self, task: asyncio.Task[Any]) -> None:
        # The next request may already hold the connection while this one's model cleans up.
        if self._task is task:
            self._task = None

    def answered(self, keep_alive: bool) -> None:
        """Go on behind a whole response."""
        if not keep_alive:
            if self.receiving or self._unread:
                self._linger()
            else:
                self._close()
        elif not self.receiving:
            self._next()

    def _next(self) -> None:
        self._current = None
        self.watch.begin()
        if self._unread:
            self.loop.call_soon(self._advance)

    # The end

    def _leave(self) -> None:
        """Cancel what is served, because the client has left."""
        if self.lost:
            return
        self.lost = True
        if self._current is not None:
            self._current.lose()
        if (task := self._task) is not None:
            Interruption(task, lambda: self._task is task)

    def refuse(self, status: int, message: str) -> None:
        """End the connection with a response of its own, unless another one has begun."""
        if self.closing:
            return
        if self._current is not None and self._current.started:
            self._close()
            return
        self.transport.write(refusal(status, message))
        self._leave()
        self._linger()

    def time_out(self) -> None:
        """End a connection whose client takes too long, with status 408 if it has begun a request."""
        if self._unread or self.receiving:
            self.refuse(408, TOO_SLOW)
        else:
            self._close()

    def shutdown(self) -> None:
        """End as soon as no request is served, because the server stops."""
        if self._current is None:
            self._close()
        else:
            self._current.keep_alive = False

    def _close(self) -> None:
        self.closing = True
        self.watch.begin()
        self.transport.close()

    def _linger(self) -> None:
        """Say no more, and drop what still comes: a close with unread bytes would take the response back."""
        self.closing = True
        self._left, self._chunks = 0, None
        self._unread.clear()
        self.watch.begin()
        if self.transport.is_closing():
            return
        self.reading.resume()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped > LINGER_BYTES:
            self.transport.close()
