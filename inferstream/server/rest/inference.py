"""The inference routes of every dialect, without FastAPI.

FastAPI's routing and response machinery costs three times what the rest of a small request does;
nothing else is gained or lost by leaving it out.
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
from ..request_ids import HEADER, RequestIds, enter
from .dialects.base import ParsedRequest, Route
from .events import EventStream
from .exchange import Exchange, plain_body
from .messages import (
    COUNT_ON_ARRIVAL,
    JSON,
    PARSE_IN_THREAD,
    ClientLeft,
    Head,
    RawHeaders,
    accepted,
    compress,
    expect_body,
    sendable,
    wrap,
)
from .origins import Origins, gets_run_models
from .query import arguments_of
from .resuming import APPLIED, EventReader, Resuming
from .uploads import parse_upload

logger = logging.getLogger("inferstream.rest")
NO_HEADERS: RawHeaders = []

HeldResponse = tuple[EventReader | None, RawHeaders, EventStream | None]
"""The response of a stream that may be resumed: its reader, or None if nothing is left, its headers, and its writer."""


class InferenceDoor:
    """Inferences by HTTP: the dialect reads the request and writes the response, all between is the same."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: DoorMeters,
        json: JsonLimits,
        edges: Sequence[Edge],
    ) -> None:
        """`edges` are around `serve`, and add headers to whole responses and to the heads of streams."""
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
        self._headers = ResponseHeaders(str.encode, sendable)
        self._get_streams = gets_run_models(settings)
        self._origins = Origins(settings)
        self._resuming = Resuming(dataplane, settings, meters, self._headers)

    def begin(self, exchange: DirectExchange) -> Awaitable[int]:
        """Serve a request to a port of ours, whose response gets the id of the request if it has one."""
        sent = exchange.head.request_id
        if sent is not None or self._ids.every:
            request_id = self._ids.id(sent)
            assert request_id is not None
            exchange.added = (HEADER, request_id)
            enter(request_id)
        return self.serve(exchange, exchange.route)

    async def _infer(self, exchange: Exchange, route: Route, method: str = "POST", query: bytes = b"") -> int:
        """Serve and count a POST, and pass other requests on; returns the HTTP status of the response."""
        head = exchange.head
        if method != "POST" or (head.last_event_id is not None and route.resumable):
            return await self._serve_stream(exchange, route, method, query)
        # One coroutine for all of it, because each costs as much as a stage.
        started = perf_counter()
        self._meters.in_progress += 1
        status, held, opened = 499, False, False
        if (split := head.split) is None:
            split = head.split = self._dataplane.access.split(exchange.headers)
        caller = Caller(Headers(split[0], None, exchange), route.dialect.name, exchange.task, split[1])
        admission = body = None
        try:
            if not head.trusted:
                self._trust(exchange, route)
            if head.limited:
                _limit(caller, head)
            try:
                if route.model:  # a full queue refuses a body before it is received, counted or parsed
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
            if asked.operation is INFER:  # a whole answer, which has nothing to close
                reply = await asked.open()
                if (waiting := self._respond(exchange, asked, reply.first)) is not None:
                    await waiting
            elif (begun := await self._send(exchange, asked, route)) is not None:
                held = True  # counted when the stream has ended
                await self._read(exchange, *begun)
            status = 200
        except ClientLeft:
            pass
        except Exception as error:
            status, headers, text = self._failure(error, route, caller, None if opened else started)
            await _refuse(exchange, status, headers, text)
        except BaseException as error:
            # When the client has left, a cancel is for that: there is nobody to tell, and nothing went wrong.
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
        """Serve and count a request for the rest of a stream, a GET that begins one, or a DELETE that ends one."""
        head, started = exchange.head, perf_counter()
        self._meters.in_progress += 1
        status, held, opened = 499, False, False
        split = head.split = head.split or self._dataplane.access.split(exchange.headers)
        caller = Caller(Headers(split[0], None, exchange), route.dialect.name, exchange.task, split[1])
        try:
            if not head.trusted:
                self._trust(exchange, route, method == "POST")
            if method == "DELETE" or (head.last_event_id is not None and route.resumable):
                begun = await self._resume(exchange, route, caller, method)
            else:
                asked = await self._query(exchange, route, caller, query)
                opened = True
                begun = await self._hold(exchange, asked, route, method)
            held = begun is not None  # its first request is counted, when the stream has ended
            status = 200 if begun is None else await self._read(exchange, *begun)
        except ClientLeft:
            pass
        except Exception as error:
            status, headers, text = self._failure(error, route, caller, None if opened else started)
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
        """The rest of a stream; None after a DELETE, whose response is sent. Raises what there is to refuse."""
        head, posted = exchange.head, method == "POST"
        if not posted:
            self._origins.check_page(exchange.headers)
        # The stream is admitted already: no full queue and no drain may refuse it.
        self._dataplane.access.check(Action.RESUME, caller, route.model)
        body = exchange.body(self._limit if posted else 0)
        if not isinstance(body, bytes):
            body = await body
        if posted and (head.encoding or len(body) > self._limit):
            await plain_body(exchange, body, self._limit)
        if method != "DELETE":
            return await self._resuming.resume(head, route, caller), NO_HEADERS, None
        await self._resuming.release(head, route, caller)
        await _sent(exchange.respond(200, [JSON], b'{"cancelled":1}'))
        return None

    async def _query(self, exchange: Exchange, route: Route, caller: Caller, query: bytes) -> ParsedRequest:
        """The request for a stream in the query of a GET. Raises what there is to refuse."""
        self._check_page(exchange)
        if exchange.head.limited:
            _limit(caller, exchange.head)
        admission = await self._dataplane.admit_loaded(route.model, route.version, caller, route.action)
        body = exchange.body(0)
        if not isinstance(body, bytes):
            await body
            admission.renew()
        asked = self._of_query(exchange, route, query, caller, admission)
        if asked.pending is not None:
            await asked.pending.write()
        if self._restricts:
            self._check_stream(asked, route, caller)
        return asked

    def _failure(
        self, error: Exception, route: Route, caller: Caller, refused: float | None
    ) -> tuple[int, RawHeaders, bytes]:
        """Status, headers and body for an error of a request, which is logged if it was `refused` before its call.

        `refused` is the time of its start, on the clock of `perf_counter`.
        """
        status, headers, text = route.dialect.error(failure := wrap(error))
        if caller.key is not None:
            headers = headers + self._rate_limits(caller)
        if refused is not None:
            self._dataplane.refused(caller, route.operation.value, route.model, failure, refused)
        return status, headers, text

    def _trust(self, exchange: Exchange, route: Route, posted: bool = True) -> None:
        """Check a head before its first request. Raises what there is to refuse.

        Repeated headers are not checked again, but those of a form, which other routes refuse.
        """
        self._origins.check(exchange.headers)
        if posted:
            expect_body(exchange.head, self._limit, route.dialect.takes_files)
        exchange.head.trusted = route.dialect.takes_json

    async def _receive(
        self,
        exchange: Exchange,
        body: bytes | Awaitable[bytes],
        route: Route,
        caller: Caller,
        admission: Admission | None,
    ) -> ParsedRequest:
        """The request in a body that has not arrived, or is compressed or large. Raises what there is to refuse."""
        if not isinstance(body, bytes):
            body = await body
            if admission is not None:
                try:
                    admission.renew()
                except NotLoaded:
                    admission = await self._dataplane.admit_loaded(
                        route.model, route.version, caller, route.action
                    )
        size = len(body)
        if exchange.head.encoding or size > self._limit:
            body = await plain_body(exchange, body, self._limit)
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
        """The request for a model that has to load: the model of the path, or the one that the `body` names."""
        if body is None:
            admission = await self._dataplane.admit_loaded(route.model, route.version, caller, route.action)
            return await self._receive(exchange, exchange.body(self._limit), route, caller, admission)
        assert isinstance(body, bytes)
        parse = partial(self._parse, exchange, body, route, caller, None, len(body))
        return await self._dataplane.when_loaded(parse, caller.deadline)

    def _rate_limits(self, caller: Caller) -> RawHeaders:
        """Headers that say how much of its limits a key has left."""
        return [(k.encode(), v.encode()) for k, v in self._dataplane.access.rate_limits(caller).items()]

    def _check_stream(self, asked: ParsedRequest, route: Route, caller: Caller) -> None:
        """Ask for a stream that its body asks for, and not its path. Raises PermissionDenied."""
        if route.action is not Action.STREAM and asked.is_streamed:
            self._dataplane.access.check(Action.STREAM, caller, asked.admission.model)

    def _check_page(self, exchange: Exchange) -> None:
        """Refuse a GET that no program has made. Raises PermissionDenied, ModelError."""
        self._origins.check_page(exchange.headers)
        if b"text/event-stream" not in dict(exchange.headers).get(b"accept", b""):
            # No image, link or prefetch of a page sends this; an EventSource always does.
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
        """The request in a plain body, which had `size` bytes as it arrived. Raises what there is to refuse.

        Large JSON was counted as it arrived.
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
        """Whether a request with a method other than POST is for a stream."""
        if method not in ("GET", "DELETE") or route.operation is not STREAM:
            return False
        if dict(headers).get(b"last-event-id") is not None:
            return route.resumable
        return method == "GET" and self._get_streams and queried(route)

    def _of_query(
        self, exchange: Exchange, route: Route, query: bytes, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        """The request in a query. Raises what there is to refuse."""
        assert admission is not None
        inputs = admission.signature.inputs or ()
        arguments = arguments_of(query, inputs)
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
        """Send the events of a stream that may be resumed, or say that there are no more; returns the status."""
        if reader is None:
            await _sent(exchange.respond_nothing())  # an EventSource connects no more after this
            return 204
        reader.exchange = exchange
        try:
            stream = stream or EventStream(exchange, reader, self._heartbeat, self._stall)
            await stream.run(reader, reader, reader, headers)
        finally:
            reader.leave()
        return 200

    async def _send(self, exchange: Exchange, asked: ParsedRequest, route: Route) -> HeldResponse | None:
        """Send a stream, or all of it as one response. One that may be resumed only begins, and is returned."""
        if self._resuming.wanted(exchange.head, asked, route):
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
        """Begin a stream that may be resumed; None if it fails after its head has left."""
        stream = EventStream(exchange, asked, self._heartbeat, self._stall)
        opening = self._resuming.begin(route, asked, method)
        begun = await stream.wait(opening, partial(self._of_stream, exchange, asked, APPLIED))
        if begun is None:
            return None
        reader, headers = begun
        return reader, headers + self._rate_limits(asked.admission.caller), stream

    async def _stream(self, exchange: Exchange, asked: ParsedRequest) -> None:
        stream = EventStream(exchange, asked, self._heartbeat, self._stall)
        reply = await stream.wait(asked.open(), partial(self._of_stream, exchange, asked))
        if reply is None:
            return
        async with reply:
            headers = NO_HEADERS if stream.is_open else self._of_stream(exchange, asked)
            if reply.first is not None and not stream.is_open:
                headers = headers + self._of_model(asked, reply.first)
            stream.usage = asked.admission.usage
            await stream.run(reply, asked, asked.events(), headers)

    def _of_stream(self, exchange: Exchange, asked: ParsedRequest, *more: tuple[bytes, bytes]) -> RawHeaders:
        caller = asked.admission.caller
        headers = [*asked.headers, *more]
        if caller.key is not None:
            headers += self._rate_limits(caller)
        for added in self._adding:
            headers += added(exchange.headers)
        return headers

    def _of_model(self, asked: ParsedRequest, response: InferenceResponse) -> RawHeaders:
        return self._headers.of(asked.admission, response.id, response.parameters)

    def _respond(
        self,
        exchange: Exchange,
        asked: ParsedRequest,
        response: InferenceResponse | None,
        gathered: tuple[RawHeaders, bytes] | None = None,
    ) -> Awaitable[None] | None:
        """Send a whole response, compressed if it is worth it; None if it is sent.

        `gathered` has headers and body of a gathered stream, whose first response is `response`.
        """
        if gathered is not None:
            headers, text = gathered
        else:
            assert response is not None
            headers, text = asked.response(response)
        if (key := asked.admission.key) is not None:
            asked.admission.sent(len(text))
            if key.limits is not None:
                headers += self._rate_limits(asked.admission.caller)
        for added in self._adding:
            headers += added(exchange.headers)
        headers += asked.headers
        if response is not None and (
            asked.admission.pipeline.marks is not None
            or (response.parameters is not None and response.parameters.headers is not None)
        ):
            headers += self._of_model(asked, response)
        if (
            self._compress_from is not None
            and len(text) >= self._compress_from
            and exchange.head.accept_encoding
            and asked.compressible
            and (encoding := accepted(exchange.head.accept_encoding)) is not None
        ):
            return _respond_compressed(exchange, headers, text, encoding)
        return exchange.respond(200, headers, text)


def _limit(caller: Caller, head: Head) -> None:
    """Give a caller the limits that a head states. Raises InvalidRequest for a wrong one."""
    if head.timeout is not None:
        caller.deadline = asyncio.get_running_loop().time() + header_timeout(head.timeout)
    caller.priority = header_priority(head.priority)
    caller.pace = header_interval(head.pace)


def queried(route: Route) -> bool:
    """Whether a GET may run the model of a route, where the settings allow it at all."""
    return route.template.replace("/versions/{model_version}", "") in route.dialect.queried


async def _refuse(exchange: Exchange, status: int, headers: RawHeaders, text: bytes) -> None:
    """Send the response of a request that failed, unless its client leaves."""
    try:
        await _sent(exchange.respond(status, headers, text))
    except BaseException as error:
        if not (exchange.left and is_own_cancel(error)):
            raise


async def _sent(waiting: Awaitable[None] | None) -> None:
    if waiting is not None:
        await waiting


async def _respond_compressed(exchange: Exchange, headers: RawHeaders, text: bytes, encoding: bytes) -> None:
    text = await compress(text, encoding)
    headers.append((b"content-encoding", encoding))
    if (waiting := exchange.respond(200, headers, text)) is not None:
        await waiting
