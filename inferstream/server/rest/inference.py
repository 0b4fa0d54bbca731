"""The inference routes of V2, MLServer and Triton's generate, in front of FastAPI.

FastAPI's routing and response machinery costs three times what the rest of a small request does;
nothing else is gained or lost by leaving it out.
"""

import asyncio
from typing import NamedTuple

from ...dataplane.admission import Admission
from ...dataplane.call import Operation
from ...dataplane.dataplane import DataPlane
from ...dataplane.priority import header_priority
from ...dataplane.reply import Reply
from ...protos import json_requests, sse
from ...protos.dialects import HEADER, Dialect, asked_dialect
from ...protos.generate import dump_flat, is_v2, parse_flat
from ...protos.json_events import EventWriter
from ...protos.json_responses import dump_response
from ...settings import Settings
from ...types import Headers, InferenceRequest, InferenceResponse
from .events import EventStream, flat_failure, v2_failure
from .exchange import Exchange
from .headers import ResponseHeaders
from .messages import (
    JSON,
    ClientLeft,
    RawHeaders,
    accepted,
    compress,
    error_response,
    expect_body,
    plain,
    wrap,
)
from .routes import Route

DIALECT = HEADER.encode()
CHOSEN: dict[Dialect, RawHeaders] = {name: [(DIALECT, name.encode())] for name in ("mlserver", "triton")}
UNASKED: RawHeaders = []
BINARY = (b"content-type", b"application/octet-stream")


class ParsedRequest(NamedTuple):
    """A request as the client meant it, and how it wants the answer."""

    request: InferenceRequest
    binary: json_requests.BinaryOutputs | None
    headers: RawHeaders
    """Says the dialect of the response, on a route that two dialects share."""
    flat: bool = False
    named: bool = False
    """Whether the client gave an id; Triton's dialect echoes no other."""


class InferenceDoor:
    """`infer`, `generate`, `infer_stream` and `generate_stream` of every model."""

    def __init__(self, dataplane: DataPlane, settings: Settings) -> None:
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
        self._profile = settings.status_profile
        self._compress_from = settings.gzip_min_bytes if settings.gzip_enabled else None
        self._heartbeat = settings.sse_heartbeat
        self._stall = settings.stream_stall_timeout
        self._headers = ResponseHeaders(dataplane.events)

    async def serve(self, exchange: Exchange, route: Route) -> int:
        """Serve one request; returns the HTTP status it was answered with."""
        operation, _, model, version, _ = route
        headers = exchange.headers
        try:
            expect_body(exchange.head, self._limit)
            body = exchange.body(self._limit)
            if not isinstance(body, bytes):
                body = await body
            admission = self._dataplane.admit(model, version)
            asked = self._parse(exchange, plain(exchange.head, body, self._limit), route, admission)
            limit, said = exchange.head.seconds(), exchange.head.priority
            deadline = None if limit is None else asyncio.get_running_loop().time() + limit
            priority = 0 if said is None else header_priority(said)
            call = admission.call(
                operation, asked.request, Headers(headers), None, deadline, exchange.task, priority
            )
            reply = await admission.open(call)
            if operation is Operation.INFER:  # a whole answer, which has nothing to close
                assert reply.first is not None
                await self._respond(exchange, reply.first, asked, model)
                return 200
            async with reply:
                await self._stream(exchange, reply, asked, model)
            return 200
        except ClientLeft:
            return 499
        except Exception as error:
            status, error_headers, text = error_response(wrap(error), self._profile)
            if (waiting := exchange.respond(status, error_headers, text)) is not None:
                await waiting
            return status

    def _parse(self, exchange: Exchange, body: bytes, route: Route, admission: Admission) -> ParsedRequest:
        asked, chosen = None, UNASKED
        if route.either:
            asked = asked_dialect(dict(exchange.headers).get(DIALECT, b"").decode("latin-1"))
            chosen = CHOSEN["mlserver"]
        length = exchange.head.header_length(len(body))
        if length == 0:
            return ParsedRequest(*json_requests.raw_request(memoryview(body), admission.inputs), chosen)
        text = body if length is None else body[:length]
        tail = None if length is None else memoryview(body)[length:]
        document = json_requests.load_request(text)
        if route.either and length is None:
            inputs = admission.inputs
            if asked == "triton" or (asked is None and not is_v2(document, inputs)):
                json_requests.refuse_duplicate_keys(text, None)
                request = parse_flat(document, inputs)
                return ParsedRequest(request, None, CHOSEN["triton"], flat=True, named=request.id is not None)
        request, binary = json_requests.build_request(document, text, tail, nested=admission.takes_any)
        return ParsedRequest(request, binary, chosen)

    async def _stream(self, exchange: Exchange, reply: Reply, asked: ParsedRequest, model: str) -> None:
        headers = [] if reply.first is None else self._headers(reply.first, model)
        headers = [*asked.headers, *headers]
        stream = EventStream(exchange, headers, self._heartbeat, self._stall)
        if asked.flat:
            await stream.run(
                reply, lambda response: sse.event(dump_flat(response, asked.named)), flat_failure
            )
        else:
            await stream.run(reply, EventWriter(), v2_failure(asked.request.id))

    async def _respond(
        self, exchange: Exchange, response: InferenceResponse, asked: ParsedRequest, model: str
    ) -> None:
        if asked.flat:
            headers = [JSON, *asked.headers, *self._headers(response, model)]
            if (waiting := exchange.respond(200, headers, dump_flat(response, asked.named))) is not None:
                await waiting
            return
        text, blobs = dump_response(response, asked.binary)
        headers = [JSON]
        if blobs:
            headers = [BINARY, (b"inference-header-content-length", b"%d" % len(text))]
            text = b"".join((text, *blobs))
        headers += asked.headers
        headers += self._headers(response, model)
        if (
            self._compress_from is not None
            and exchange.head.accept_encoding
            and len(text) >= self._compress_from
            and (encoding := accepted(exchange.head.accept_encoding)) is not None
        ):
            text = await compress(text, encoding)
            headers.append((b"content-encoding", encoding))
        if (waiting := exchange.respond(200, headers, text)) is not None:
            await waiting
