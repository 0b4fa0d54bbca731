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
        self.serve: Serve = self._serve
        for edge in edges:
            self.serve = edge.http(self.serve)
        self._meters = meters
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
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

    async def _serve(self, exchange: Exchange, route: Route, method: str = "POST", query: bytes = b"") -> int:
        """Serve and count one request; returns the HTTP status it was answered with.

        A GET begins or resumes a stream, a DELETE ends one.
        """
        started = perf_counter()
        meters = self._meters
        meters.in_progress += 1
        status, held, opened = 499, False, False
        head = exchange.head
        if (split := head.split) is None:
            split = head.split = self._dataplane.access.split(exchange.headers)
        caller = Caller(Headers(split[0], None, exchange), route.dialect.name, exchange.task, split[1])
        try:
            # One coroutine for all of it, because each costs as much as a stage.
            try:
                posted = method == "POST"
                if not head.trusted:
                    self._origins.check(exchange.headers)
                    if posted:
                        expect_body(head, self._limit, route.dialect.takes_files)
                    # Repeated headers are not checked again, but those of a form, which other routes refuse.
                    head.trusted = route.dialect.takes_json
                resumed = head.last_event_id is not None and route.resumable
                if not posted:
                    resumed = resumed or method == "DELETE"
                    self._check_page(exchange, resumed)
                admission = None
                if resumed:  # the stream is admitted already: no full queue and no drain may refuse it
                    self._dataplane.access.check(Action.RESUME, caller, route.model)
                else:
                    if head.limited:
                        _limit(caller, head)
                    # A full queue refuses a body before it is received, counted or parsed.
                    if route.model:
                        try:
                            admission = self._dataplane.admit(
                                route.model, route.version, caller, route.action
                            )
                        except NotLoaded:
                            admission = await self._dataplane.admit_loaded(
                                route.model, route.version, caller, route.action
                            )
                    else:
                        self._dataplane.access.check(route.action, caller)
                body = exchange.body(self._limit if posted else 0)
                if not isinstance(body, bytes):
                    body = await body
                    if admission is not None:
                        admission.renew()
                size = len(body)
                if posted and (head.encoding or size > self._limit):
                    body = await plain_body(exchange, body, self._limit)
                if resumed and method == "DELETE":
                    await self._resuming.release(exchange.head, route, caller)
                    await _sent(exchange.respond(200, [JSON], b'{"cancelled":1}'))
                elif resumed:
                    reader = await self._resuming.resume(exchange.head, route, caller)
                    held = True  # the first request of the stream is counted
                    status = await self._read(exchange, reader, NO_HEADERS)
                    return status
                else:
                    try:
                        if not posted:
                            asked = self._of_query(exchange, route, query, caller, admission)
                        elif len(body) > PARSE_IN_THREAD:
                            asked = await asyncio.to_thread(
                                self._parse, exchange, body, route, caller, admission
                            )
                        else:
                            asked = self._parse(exchange, body, route, caller, admission)
                    except NotLoaded:
                        parse = partial(self._parse, exchange, body, route, caller, None)
                        asked = await self._dataplane.when_loaded(parse, caller.deadline)
                    if asked.pending is not None:
                        await asked.pending.write()
                    if asked.admission.metering is not None:
                        asked.admission.size = size
                    if (
                        asked.operation is STREAM
                        and caller.key is not None
                        and route.action is not Action.STREAM
                    ):
                        self._check_stream(asked, caller)
                    opened = True
                    if asked.operation is INFER:  # a whole answer, which has nothing to close
                        reply = await asked.open()
                        assert reply.first is not None
                        headers, text = asked.response(reply.first)
                        if caller.key is not None:
                            asked.admission.sent(len(text))
                        waiting = self._respond(exchange, reply.first, asked, headers, text)
                        if waiting is not None:
                            await waiting
                    elif not posted or self._resuming.wanted(head, asked, route):
                        stream = EventStream(exchange, asked, self._heartbeat, self._stall)
                        opening = self._resuming.begin(route, asked, method)
                        begun = await stream.wait(opening, partial(self._of_stream, exchange, asked, APPLIED))
                        if held := begun is not None:  # counted when the stream has ended
                            await self._read(exchange, begun[0], begun[1] + self._rate_limits(caller), stream)
                    else:
                        await self._send(exchange, asked)
                status = 200
            except ClientLeft:
                pass
            except Exception as error:
                status, headers, text = route.dialect.error(failure := wrap(error))
                if caller.key is not None:
                    headers = headers + self._rate_limits(caller)
                if not opened:
                    self._dataplane.refused(caller, route.operation.value, route.model, failure, started)
                await _sent(exchange.respond(status, headers, text))
        except BaseException as error:
            # When the client has left, a cancel is for that: there is nobody to tell, and nothing went wrong.
            if not (exchange.left and is_own_cancel(error)):
                raise
        finally:
            meters.in_progress -= 1
            seconds = perf_counter() - started
            if not held:
                meters.requests[method, route.template, str(status)].observe(seconds)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("%s %s of %s %d, %.6f s", method, route.template, route.model, status, seconds)
        return status

    def _rate_limits(self, caller: Caller) -> RawHeaders:
        """Headers that say how much of its limits a key has left."""
        return [(k.encode(), v.encode()) for k, v in self._dataplane.access.rate_limits(caller).items()]

    def _check_stream(self, asked: ParsedRequest, caller: Caller) -> None:
        """Ask for a stream that its body asks for, and not its path. Raises PermissionDenied."""
        if asked.is_streamed:
            self._dataplane.access.check(Action.STREAM, caller, asked.admission.model)

    def _check_page(self, exchange: Exchange, resumed: bool) -> None:
        """Refuse a GET that no program has made. Raises PermissionDenied, ModelError."""
        self._origins.check_page(exchange.headers)
        if not resumed and b"text/event-stream" not in dict(exchange.headers).get(b"accept", b""):
            # No image, link or prefetch of a page sends this; an EventSource always does.
            raise ModelError("A GET that runs a model needs `Accept: text/event-stream`.", 406)

    def _parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        """The request in a plain body; large JSON was counted as it arrived. Raises what there is to refuse."""
        head = exchange.head
        if head.uploads and (uploaded := parse_upload(head, body, route, admission)) is not None:
            return uploaded
        if route.dialect.takes_json and (head.encoding or head.uploads or len(body) <= COUNT_ON_ARRIVAL):
            self._json.check(body if head.json_length is None else body[: head.header_length(len(body))])
        return route.dialect.parse(exchange, body, route, caller, admission)

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
        stream: EventStream | None = None,
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

    async def _send(self, exchange: Exchange, asked: ParsedRequest) -> None:
        """Send a stream, or all of it as one response."""
        if asked.is_streamed:
            await self._stream(exchange, asked)
            return
        async with await asked.open() as reply:
            first, gathering = reply.first, asked.gathering()
            assert gathering is not None
            await gather(reply, self._limit, gathering.add)
        headers, text = gathering.end()
        asked.admission.sent(len(text))
        if (waiting := self._respond(exchange, first, asked, headers, text)) is not None:
            await waiting

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
        response: InferenceResponse | None,
        asked: ParsedRequest,
        headers: RawHeaders,
        text: bytes,
    ) -> Awaitable[None] | None:
        """Send a whole response, compressed if it is worth it; None if it is sent."""
        if (key := asked.admission.key) is not None and key.limits is not None:
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


async def _sent(waiting: Awaitable[None] | None) -> None:
    if waiting is not None:
        await waiting


async def _respond_compressed(exchange: Exchange, headers: RawHeaders, text: bytes, encoding: bytes) -> None:
    text = await compress(text, encoding)
    headers.append((b"content-encoding", encoding))
    if (waiting := exchange.respond(200, headers, text)) is not None:
        await waiting
