"""The inference routes of every dialect, in front of FastAPI.

FastAPI's routing and response machinery costs three times what the rest of a small request does;
nothing else is gained or lost by leaving it out.
"""

import asyncio
from time import perf_counter

from ...dataplane.call import Operation
from ...dataplane.dataplane import DataPlane
from ...dataplane.priority import header_priority
from ...dataplane.reply import Reply
from ...settings import Settings
from ...types import Headers, InferenceResponse
from .dialects.base import Gathering, ParsedRequest, Route
from .events import TURN_AFTER, EventStream
from .exchange import Exchange
from .headers import ResponseHeaders
from .messages import ClientLeft, RawHeaders, accepted, compress, expect_body, plain, wrap


class InferenceDoor:
    """Inferences by HTTP: the dialect reads the request and writes the response, all between is the same."""

    def __init__(self, dataplane: DataPlane, settings: Settings) -> None:
        self._limit = settings.max_body_bytes
        self._compress_from = settings.gzip_min_bytes if settings.gzip_enabled else None
        self._heartbeat = settings.sse_heartbeat
        self._stall = settings.stream_stall_timeout
        self._headers = ResponseHeaders(dataplane.events)

    async def serve(self, exchange: Exchange, route: Route) -> int:
        """Serve one request; returns the HTTP status it was answered with."""
        try:
            expect_body(exchange.head, self._limit)
            body = exchange.body(self._limit)
            if not isinstance(body, bytes):
                body = await body
            asked = route.dialect.parse(exchange, plain(exchange.head, body, self._limit), route)
            admission, operation = asked.admission, asked.operation
            limit, said = exchange.head.seconds(), exchange.head.priority
            deadline = None if limit is None else asyncio.get_running_loop().time() + limit
            priority = 0 if said is None else header_priority(said)
            call = admission.call(
                operation,
                asked.request,
                Headers(exchange.headers, None, exchange),
                None,
                deadline,
                exchange.task,
                priority,
            )
            call.face = route.dialect.name
            reply = await asked.open(call)
            if operation is Operation.INFER:  # a whole answer, which has nothing to close
                assert reply.first is not None
                headers, text = asked.response(reply.first)
                await self._respond(exchange, reply.first, asked, headers, text)
                return 200
            gathering = asked.gathering()
            async with reply:
                if gathering is None:
                    await self._stream(exchange, reply, asked)
                else:
                    await _gather(reply, gathering)
            if gathering is not None:
                headers, text = gathering.end()
                await self._respond(exchange, reply.first, asked, headers, text)
            return 200
        except ClientLeft:
            return 499
        except Exception as error:
            status, error_headers, text = route.dialect.error(wrap(error))
            if (waiting := exchange.respond(status, error_headers, text)) is not None:
                await waiting
            return status

    async def _stream(self, exchange: Exchange, reply: Reply, asked: ParsedRequest) -> None:
        headers = asked.headers
        if reply.first is not None:
            headers = headers + self._headers(reply.first, asked.admission.model)
        await EventStream(exchange, headers, self._heartbeat, self._stall).run(reply, asked)

    async def _respond(
        self,
        exchange: Exchange,
        response: InferenceResponse | None,
        asked: ParsedRequest,
        headers: RawHeaders,
        text: bytes,
    ) -> None:
        headers += asked.headers
        if response is not None:
            headers += self._headers(response, asked.admission.model)
        if (
            self._compress_from is not None
            and exchange.head.accept_encoding
            and len(text) >= self._compress_from
            and asked.compressible
            and (encoding := accepted(exchange.head.accept_encoding)) is not None
        ):
            text = await compress(text, encoding)
            headers.append((b"content-encoding", encoding))
        if (waiting := exchange.respond(200, headers, text)) is not None:
            await waiting


async def _gather(reply: Reply, gathering: Gathering) -> None:
    """Read a stream until it ends, or until the client has all that it wants."""
    turned = perf_counter()
    async for response in reply:
        if not gathering.add(response):
            await reply.aclose(None)
            return
        if perf_counter() - turned > TURN_AFTER:  # a model that never waits would keep the event loop
            await asyncio.sleep(0)
            turned = perf_counter()
