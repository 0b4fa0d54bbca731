"""The inference routes of every dialect, without a web framework.

The routing and response classes of FastAPI would take three times as long as the rest of a small request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from time import perf_counter

import orjson

from ...concurrency.scope import is_own_cancel
from ...dataplane.access import Action
from ...dataplane.admission import Admission
from ...dataplane.call import INFER, PACE, STREAM, header_interval, header_priority, header_timeout
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...dataplane.first_calls import NotLoaded
from ...dataplane.gathering import gather
from ...errors import ModelError
from ...protos.json_checks import JsonLimits
from ...settings import Settings
from ...telemetry.metrics import DoorMeters
from ...types import Headers, InferenceResponse
from ..edge import Edge, Serve
from ..headers import ResponseHeaders
from ..http1.exchange import DirectExchange
from ..request_ids import HEADER, RequestIds, set_request_id
from .dialects.base import ParsedRequest, Route
from .events import EventStream
from .exchange import Exchange, decompress_body
from .messages import (
    COUNT_ON_ARRIVAL,
    JSON,
    PARSE_IN_THREAD,
    ClientLeft,
    Head,
    RawHeaders,
    check_body_headers,
    choose_encoding,
    compress,
    select_sendable,
    wrap,
)
from .origins import Origins, allows_get_streams
from .query import parse_query
from .resuming import APPLIED, EventReader, Resuming
from .uploads import parse_upload

logger = logging.getLogger("inferstream.rest")
NO_HEADERS: RawHeaders = []

HeldResponse = tuple[EventReader | None, RawHeaders, EventStream | None]
"""The response of a resumable stream: its reader, headers and writer.

The reader is None if no event is left. The writer is None if none exists yet.
"""


class InferenceDoor:
    """Serves inference requests over HTTP in every dialect.

    The dialect reads the request and writes the response. Everything in between is shared.
    """

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: DoorMeters,
        json: JsonLimits,
        edges: Sequence[Edge],
    ) -> None:
        """Wrap `serve` in the `edges`, whose headers are added to complete and streamed responses."""
        self.serve: Serve = self._infer
        for edge in edges:
            self.serve = edge.http(self.serve)
        self._meters = meters
        self._dataplane = dataplane
        self._restricts = dataplane.access.restricts
        self._limit = settings.max_body_bytes
        self._at_once = min(self._limit, PARSE_IN_THREAD)
        self._compress_from = settings.gzip_min_bytes if settings.gzip_enabled else None
        self._heartbeat = settings.sse_heartbeat
        self._stall = settings.stream_stall_timeout
        self._json = json
        self._adding = [edge.headers for edge in edges if edge.headers is not None]
        self._ids = RequestIds.of(settings)
        self._headers = ResponseHeaders(str.encode, select_sendable)
        self._get_streams = allows_get_streams(settings)
        self._origins = Origins(settings)
        self._resuming = Resuming(dataplane, settings, meters, self._headers)

    def begin(self, exchange: DirectExchange) -> Awaitable[int]:
        """Serve a request on the HTTP port. Its response repeats the request id, if it has one."""
        sent = exchange.head.request_id
        if sent is not None or self._ids.every:
            request_id = self._ids.choose_id(sent)
            assert request_id is not None
            exchange.added = (HEADER, request_id)
            set_request_id(request_id)
        return self.serve(exchange, exchange.route)

    async def _infer(self, exchange: Exchange, route: Route, method: str = "POST", query: bytes = b"") -> int:
        """Serve and count a POST, or delegate to `_serve_stream`. Returns the HTTP status of the response."""
        head = exchange.head
        if method != "POST" or (head.last_event_id is not None and route.resumable):
            return await self._serve_stream(exchange, route, method, query)
        # One long coroutine, because each additional one costs as much as a pipeline stage.
        started = perf_counter()
        self._meters.in_progress += 1
        status, held, opened = 499, False, False
        if (split := head.split) is None:
            split = head.split = self._dataplane.access.split(exchange.headers)
        caller = Caller(Headers(split[0], None, exchange), route.dialect.name, exchange.task, split[1])
        admission = body = asked = None
        try:
            if not head.trusted:
                self._check_head(exchange, route)
            if head.limited:
                _apply_limits(caller, head)
            try:
                if route.model:  # if the queue is full, reject before the body is received
                    admission = self._dataplane.admit(route.model, route.version, caller, route.action)
                else:
                    self._dataplane.access.check(route.action, caller)
                body = exchange.body(self._limit)
                if isinstance(body, bytes) and len(body) <= self._at_once and not head.encoding:
                    asked = self._parse(exchange, body, route, caller, admission, len(body))
                else:
                    asked = await self._receive(exchange, body, route, caller, admission)
            except NotLoaded:
                asked = await self._load(exchange, body, route, caller)
            if asked.pending is not None:
                await asked.pending.write()
            if self._restricts and asked.operation is STREAM:
                self._check_stream(asked, route, caller)
            opened = True
            if asked.operation is INFER:  # a complete reply, which does not have to be closed
                reply = await asked.open()
                if (waiting := self._respond(exchange, asked, reply.first)) is not None:
                    await waiting
            elif (begun := await self._send(exchange, asked, route)) is not None:
                held = True  # counted when the stream ends
                await self._read(exchange, *begun)
            status = 200
        except ClientLeft:
            pass
        except Exception as error:
            status, headers, text = self._failure(error, route, caller, None if opened else started, asked)
            await _refuse(exchange, status, headers, text)
        except BaseException as error:
            # After a disconnect, cancellation is expected: no response is possible and nothing failed.
            if not (exchange.left and is_own_cancel(error)):
                raise
        finally:
            self._meters.in_progress -= 1
            seconds = perf_counter() - started
            if not held:
                self._meters.requests[method, route.template, str(status)].observe(seconds)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("%s %s of %s %d, %.6f s", method, route.template, route.model, status, seconds)
        return status

    async def _serve_stream(self, exchange: Exchange, route: Route, method: str, query: bytes) -> int:
        """Serve a request to resume a stream, a GET that starts one, or a DELETE that cancels one.

        Counts the request and returns the HTTP status of the response.
        """
        head, started = exchange.head, perf_counter()
        self._meters.in_progress += 1
        status, held, opened = 499, False, False
        split = head.split = head.split or self._dataplane.access.split(exchange.headers)
        caller = Caller(Headers(split[0], None, exchange), route.dialect.name, exchange.task, split[1])
        asked = None
        try:
            if not head.trusted:
                self._check_head(exchange, route, method == "POST")
            if method == "DELETE" or (head.last_event_id is not None and route.resumable):
                begun = await self._resume(exchange, route, caller, method)
            else:
                asked = await self._query(exchange, route, caller, query)
                opened = True
                begun = await self._hold(exchange, asked, route, method)
            held = begun is not None  # counted as one request when the stream ends
            status = 200 if begun is None else await self._read(exchange, *begun)
        except ClientLeft:
            pass
        except Exception as error:
            status, headers, text = self._failure(error, route, caller, None if opened else started, asked)
            await _refuse(exchange, status, headers, text)
        except BaseException as error:
            if not (exchange.left and is_own_cancel(error)):
                raise
        finally:
            self._meters.in_progress -= 1
            seconds = perf_counter() - started
            if not held:
                self._meters.requests[method, route.template, str(status)].observe(seconds)
            logger.debug("%s %s of %s %d, %.6f s", method, route.template, route.model, status, seconds)
        return status

    async def _resume(
        self, exchange: Exchange, route: Route, caller: Caller, method: str
    ) -> HeldResponse | None:
        """Resume or cancel a stream. Returns None after a DELETE, whose response is sent here.

        Raises the errors of the origin check, the access check, the receipt of the body, and `Resuming`.
        """
        head, posted = exchange.head, method == "POST"
        if not posted:
            self._origins.check_page(exchange.headers)
        # The stream was admitted by its first request: a full queue or a drain must not reject it.
        self._dataplane.access.check(Action.RESUME, caller, route.model)
        body = exchange.body(self._limit if posted else 0)
        if not isinstance(body, bytes):
            body = await body
        if posted and (head.encoding or len(body) > self._limit):
            await decompress_body(exchange, body, self._limit)
        if method != "DELETE":
            return await self._resuming.resume(head, route, caller), NO_HEADERS, None
        await self._resuming.release(head, route, caller)
        await _await_if_needed(exchange.respond(200, [JSON], b'{"cancelled":1}'))
        return None

    async def _query(self, exchange: Exchange, route: Route, caller: Caller, query: bytes) -> ParsedRequest:
        """Parse the query of a GET that starts a stream. Raises InferstreamError if it is rejected."""
        self._check_page(exchange)
        if exchange.head.limited:
            _apply_limits(caller, exchange.head)
        admission = await self._dataplane.load_and_admit(route.model, route.version, caller, route.action)
        body = exchange.body(0)
        if not isinstance(body, bytes):
            await body
            admission.renew()
        asked = self._parse_query(exchange, route, query, caller, admission)
        if asked.pending is not None:
            await asked.pending.write()
        if self._restricts:
            self._check_stream(asked, route, caller)
        return asked

    def _failure(
        self,
        error: Exception,
        route: Route,
        caller: Caller,
        refused: float | None,
        asked: ParsedRequest | None,
    ) -> tuple[int, RawHeaders, bytes]:
        """Return the status, headers and body for an error.

        `refused` is the start time on the `perf_counter` clock if the request failed before it became a call.
        Such a failure is logged here. `asked` is the request, if it was parsed.
        """
        failure = wrap(error)
        status, headers, text = route.dialect.error(
            failure if asked is None else asked.translate_error(failure)
        )
        if caller.key is not None:
            headers = headers + self._rate_limits(caller)
        if refused is not None:
            self._dataplane.log_rejection(caller, route.operation.value, route.model, failure, refused)
        return status, headers, text

    def _check_head(self, exchange: Exchange, route: Route, posted: bool = True) -> None:
        """Check the origin, the length and the media type of a new head.

        Requests with the same headers share a head, so it is checked once, except in dialects without
        JSON. Raises PermissionDenied, PayloadTooLarge or UnsupportedEncoding.
        """
        self._origins.check(exchange.headers)
        if posted:
            check_body_headers(exchange.head, self._limit, route.dialect.takes_files)
        exchange.head.trusted = route.dialect.takes_json

    async def _receive(
        self,
        exchange: Exchange,
        body: bytes | Awaitable[bytes],
        route: Route,
        caller: Caller,
        admission: Admission | None,
    ) -> ParsedRequest:
        """Receive and parse a body that is incomplete, compressed or large. Raises InferstreamError."""
        if not isinstance(body, bytes):
            body = await body
            if admission is not None:
                try:
                    admission.renew()
                except NotLoaded:
                    admission = await self._dataplane.load_and_admit(
                        route.model, route.version, caller, route.action
                    )
        size = len(body)
        if exchange.head.encoding or size > self._limit:
            body = await decompress_body(exchange, body, self._limit)
        try:
            if len(body) > PARSE_IN_THREAD:
                return await asyncio.to_thread(self._parse, exchange, body, route, caller, admission, size)
            return self._parse(exchange, body, route, caller, admission, size)
        except NotLoaded:
            parse = partial(self._parse, exchange, body, route, caller, None, size)
            return await self._dataplane.when_loaded(parse, caller.deadline)

    async def _load(
        self, exchange: Exchange, body: bytes | Awaitable[bytes] | None, route: Route, caller: Caller
    ) -> ParsedRequest:
        """Parse the request after its model, named by the path or by `body`, has loaded on demand."""
        if body is None:
            admission = await self._dataplane.load_and_admit(route.model, route.version, caller, route.action)
            return await self._receive(exchange, exchange.body(self._limit), route, caller, admission)
        assert isinstance(body, bytes)
        parse = partial(self._parse, exchange, body, route, caller, None, len(body))
        return await self._dataplane.when_loaded(parse, caller.deadline)

    def _rate_limits(self, caller: Caller) -> RawHeaders:
        """Return response headers with the remaining rate limits of an API key."""
        return [(k.encode(), v.encode()) for k, v in self._dataplane.access.rate_limits(caller).items()]

    def _check_stream(self, asked: ParsedRequest, route: Route, caller: Caller) -> None:
        """Check access to a stream that the body, not the path, requests. Raises PermissionDenied."""
        if route.action is not Action.STREAM and asked.is_streamed:
            self._dataplane.access.check(Action.STREAM, caller, asked.admission.model)

    def _check_page(self, exchange: Exchange) -> None:
        """Reject a GET that a web page may have caused. Raises PermissionDenied or ModelError."""
        self._origins.check_page(exchange.headers)
        if b"text/event-stream" not in dict(exchange.headers).get(b"accept", b""):
            # Images, links and prefetches never send this header; an EventSource always does.
            raise ModelError("A GET that runs a model needs `Accept: text/event-stream`.", 406)

    def _parse(
        self,
        exchange: Exchange,
        body: bytes,
        route: Route,
        caller: Caller,
        admission: Admission | None,
        size: int,
    ) -> ParsedRequest:
        """Parse a decompressed body. `size` is its size on the wire. Raises InferstreamError.

        The JSON limits of a large body were checked while it arrived.
        """
        head = exchange.head
        if not head.uploads or (asked := parse_upload(head, body, route, admission)) is None:
            if route.dialect.takes_json and (head.encoding or head.uploads or len(body) <= COUNT_ON_ARRIVAL):
                self._json.check(body if head.json_length is None else body[: head.header_length(len(body))])
            asked = route.dialect.parse(exchange, body, route, caller, admission)
        if asked.admission.metering is not None:
            asked.admission.size = size
        return asked

    def serves(self, route: Route, method: str, headers: RawHeaders) -> bool:
        """Whether a GET or DELETE on this route starts, resumes or cancels a stream."""
        if method not in ("GET", "DELETE") or route.operation is not STREAM:
            return False
        if dict(headers).get(b"last-event-id") is not None:
            return route.resumable
        return method == "GET" and self._get_streams and allows_get(route)

    def _parse_query(
        self, exchange: Exchange, route: Route, query: bytes, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        """Parse the query as flat JSON arguments. Raises InvalidRequest."""
        assert admission is not None
        inputs = admission.signature.inputs or ()
        arguments = parse_query(query, inputs)
        if PACE in arguments and all(tensor.name != PACE for tensor in inputs):
            caller.pace = header_interval(str(arguments.pop(PACE)).encode())
        return route.dialect.parse(exchange, orjson.dumps(arguments), route, caller, admission)

    async def _read(
        self,
        exchange: Exchange,
        reader: EventReader | None,
        headers: RawHeaders,
        stream: EventStream | None,
    ) -> int:
        """Send the events of a resumable stream, or 204 if no event is left. Returns the status."""
        if reader is None:
            await _await_if_needed(
                exchange.respond_nothing()
            )  # an EventSource does not reconnect after a 204
            return 204
        reader.exchange = exchange
        try:
            stream = stream or EventStream(exchange, reader, self._heartbeat, self._stall)
            await stream.run(reader, reader, reader, headers)
        finally:
            reader.leave()
        return 200

    async def _send(self, exchange: Exchange, asked: ParsedRequest, route: Route) -> HeldResponse | None:
        """Send a reply as a stream or gathered into one response.

        A resumable stream is not sent but started and returned.
        """
        if self._resuming.is_resumable(exchange.head, asked, route):
            return await self._hold(exchange, asked, route, "POST")
        if asked.is_streamed:
            await self._stream(exchange, asked)
            return None
        async with await asked.open() as reply:
            first, gathering = reply.first, asked.gathering()
            assert gathering is not None
            await gather(reply, self._limit, gathering.add)
        if (waiting := self._respond(exchange, asked, first, gathering.end())) is not None:
            await waiting
        return None

    async def _hold(
        self, exchange: Exchange, asked: ParsedRequest, route: Route, method: str
    ) -> HeldResponse | None:
        """Start a resumable stream. Returns None if it fails after its head has been sent."""
        stream = EventStream(exchange, asked, self._heartbeat, self._stall)
        opening = self._resuming.begin(route, asked, method)
        begun = await stream.wait(opening, partial(self._stream_headers, exchange, asked, APPLIED))
        if begun is None:
            return None
        reader, headers = begun
        return reader, headers + self._rate_limits(asked.admission.caller), stream

    async def _stream(self, exchange: Exchange, asked: ParsedRequest) -> None:
        stream = EventStream(exchange, asked, self._heartbeat, self._stall)
        reply = await stream.wait(asked.open(), partial(self._stream_headers, exchange, asked))
        if reply is None:
            return
        async with reply:
            headers = NO_HEADERS if stream.is_open else self._stream_headers(exchange, asked)
            if reply.first is not None and not stream.is_open:
                headers = headers + self._response_headers(asked, reply.first)
            stream.usage = asked.admission.usage
            await stream.run(reply, asked, asked.events(), headers)

    def _stream_headers(
        self, exchange: Exchange, asked: ParsedRequest, *more: tuple[bytes, bytes]
    ) -> RawHeaders:
        caller = asked.admission.caller
        headers = [*asked.headers, *more]
        if caller.key is not None:
            headers += self._rate_limits(caller)
        for added in self._adding:
            headers += added(exchange.headers)
        return headers

    def _response_headers(self, asked: ParsedRequest, response: InferenceResponse) -> RawHeaders:
        return self._headers.collect(asked.admission, response.id, response.parameters)

    def _respond(
        self,
        exchange: Exchange,
        asked: ParsedRequest,
        response: InferenceResponse | None,
        gathered: tuple[RawHeaders, bytes] | None = None,
    ) -> Awaitable[None] | None:
        """Send a complete response, compressed if the client accepts it and the body is large enough.

        `gathered` is the headers and the body of a gathered stream, whose first response is `response`.
        Returns None if the response is sent, else an awaitable.
        """
        if gathered is not None:
            headers, text = gathered
        else:
            assert response is not None
            headers, text = asked.response(response)
        if (key := asked.admission.key) is not None:
            asked.admission.count_response(len(text))
            if key.limits is not None:
                headers += self._rate_limits(asked.admission.caller)
        for added in self._adding:
            headers += added(exchange.headers)
        headers += asked.headers
        if response is not None and (
            asked.admission.pipeline.marks is not None
            or (response.parameters is not None and response.parameters.headers is not None)
        ):
            headers += self._response_headers(asked, response)
        if (
            self._compress_from is not None
            and len(text) >= self._compress_from
            and exchange.head.accept_encoding
            and asked.compressible
            and (encoding := choose_encoding(exchange.head.accept_encoding)) is not None
        ):
            return _compress_and_respond(exchange, headers, text, encoding)
        return exchange.respond(200, headers, text)


def _apply_limits(caller: Caller, head: Head) -> None:
    """Set the deadline, priority and pace of a caller from the headers. Raises InvalidRequest."""
    if head.timeout is not None:
        caller.deadline = asyncio.get_running_loop().time() + header_timeout(head.timeout)
    caller.priority = header_priority(head.priority)
    caller.pace = header_interval(head.pace)


def allows_get(route: Route) -> bool:
    """Whether a dialect allows GET on a route. The setting `get_streams` may still disable it."""
    return route.template.replace("/versions/{model_version}", "") in route.dialect.queried


async def _refuse(exchange: Exchange, status: int, headers: RawHeaders, text: bytes) -> None:
    """Send an error response, unless the client disconnects."""
    try:
        await _await_if_needed(exchange.respond(status, headers, text))
    except BaseException as error:
        if not (exchange.left and is_own_cancel(error)):
            raise


async def _await_if_needed(waiting: Awaitable[None] | None) -> None:
    if waiting is not None:
        await waiting


async def _compress_and_respond(
    exchange: Exchange, headers: RawHeaders, text: bytes, encoding: bytes
) -> None:
    text = await compress(text, encoding)
    headers.append((b"content-encoding", encoding))
    if (waiting := exchange.respond(200, headers, text)) is not None:
        await waiting
