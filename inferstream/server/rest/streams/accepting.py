"""Accepts REST requests over HTTP/2."""

import asyncio
import logging
from typing import Any

from ....concurrency.inflight import COUNTED_BYTES
from ...http1.cycle import build_scope
from ...http1.exchange import Openings
from ...http1.heads import RequestRefused
from ...http1.service import Service
from ...http2.request import Request
from ...http2.stream import Receiver, Stream
from ..messages import JSON
from .cycle import StreamCycle
from .request import Http2Head, StreamExchange

logger = logging.getLogger("inferstream.rest")


class StreamRequests:
    """Serves HTTP/2 requests like HTTP/1 requests: inference directly, all others through ASGI."""

    def __init__(self, service: Service, openings: Openings, scheme: str) -> None:
        self._service = service
        self._openings = openings
        self._scheme = scheme
        self._tasks: set[asyncio.Task[Any]] = set()

    def accept(self, stream: Stream, request: Request, end: bool) -> Receiver | None:
        """Start a request, which has no body if `end` is true.

        Returns the receiver of its body, or None if the request was rejected.
        """
        stream.connection.ends_quietly = True
        head = request.derived
        if head is None:
            head = request.derived = Http2Head(request, self._service)
        length = request.content_length or 0
        if head.route is not None and length <= stream.connection.limits.stream_window:
            exchange = StreamExchange(stream, head, self._openings, self._scheme, self._infer)
            if length > COUNTED_BYTES and not exchange.has_room(0, length):
                return None
            if end:
                exchange.receive_data(b"", True)
            return exchange
        cycle = StreamCycle(stream, head, self._openings, self._scheme)
        if length > COUNTED_BYTES and not cycle.has_room(0, length):
            return None
        try:
            scope = build_scope(cycle.connection, head)
        except RequestRefused as refused:
            cycle.finish(refused.status, [JSON], b'{"error":"%b"}' % refused.message.encode())
            return None
        self._start(stream, cycle.run(self._service.app, scope))
        return cycle

    def _infer(self, exchange: StreamExchange) -> None:
        exchange.task = self._start(exchange.stream, self._serve(exchange))

    async def _serve(self, exchange: StreamExchange) -> None:
        task = exchange.task
        assert task is not None
        exchange.connection.hold(task)
        try:
            await self._service.infer(exchange)
        except Exception:  # no task awaits this one; without a reset, the client would hang
            logger.exception("REST call failed")
            exchange.abort()
        finally:
            exchange.connection.release(task)

    def _start(self, stream: Stream, serving: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = stream.connection.loop.create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
