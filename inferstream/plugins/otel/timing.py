"""The time of a request by stage, in response headers and RPC trailers, if the client requests it."""

from collections.abc import Awaitable, Coroutine
from contextvars import ContextVar
from time import perf_counter
from typing import Any, TypeVar

from inferstream.errors import InvalidRequest
from inferstream.ext.calls import AtEnd, Call, Handler, Reply, ServerParts, StageContext, StagedModel
from inferstream.ext.http import Edge, RawHeaders, Serve, ServeBytes

REQUEST_HEADER = "x-request-timing"
"""The request header or metadata that requests the times, with any value."""

RESPONSE_HEADER = "server-timing"

T = TypeVar("T")


class Times:
    """The seconds that one request has spent in each stage."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._stages: dict[str, float] = {}
        self._written_since: float | None = None
        self.model: object = None
        """The key of the first model. Models that it calls and shadow copies are not counted."""

    def add(self, stage: str, seconds: float) -> None:
        """Add to a stage. A stream over gRPC may contain several calls."""
        if seconds > 0:
            self._stages[stage] = self._stages.get(stage, 0.0) + seconds

    def start_write(self) -> None:
        self._written_since = perf_counter()

    def format(self) -> str:
        """Return the value of a `Server-Timing` header, in milliseconds (W3C Server Timing)."""
        now, stages = perf_counter(), dict(self._stages)
        if self._written_since is not None:
            stages["write"] = now - self._written_since
        stages["total"] = now - self._began
        return ", ".join(f"{name};dur={seconds * 1000:.3f}" for name, seconds in stages.items())


_times: ContextVar[Times | None] = ContextVar("times", default=None)
"""The times of the current request. None if the client does not request them."""


def time_calls(inner: Handler) -> Handler:
    """Wrap a handler to measure the calls of requested times."""
    key = object()  # A reference to the handler could keep an unloaded model in memory.
    find_times = _times.get

    def handle(call: Call) -> Awaitable[Reply]:
        times = find_times()
        return inner(call) if times is None else _measure(inner, call, times, key)

    return handle


async def _measure(inner: Handler, call: Call, times: Times, key: object) -> Reply:
    if times.model is None:
        times.model = key
    elif times.model is not key:
        return await inner(call)
    began = perf_counter()
    try:
        reply = await inner(call)
    finally:
        times.add("queue", call.waited)
        times.add("batch", call.batch_wait)
    first = perf_counter()
    times.add("model", first - began - call.waited - call.batch_wait)
    if reply.single:
        times.start_write()
        return reply
    return reply.watch(AtEnd(lambda _: times.add("model", perf_counter() - first)))


class TimedExchange:
    """An HTTP exchange that adds the times to the headers of its response."""

    def __init__(self, exchange: Any, times: Times) -> None:
        self._exchange = exchange
        self._times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def respond(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None] | None:
        sent: Awaitable[None] | None = self._exchange.respond(status, self._with_times(headers), body)
        return sent

    def open(self, headers: RawHeaders) -> None:
        self._exchange.open(self._with_times(headers))

    def _with_times(self, headers: RawHeaders) -> RawHeaders:
        return [*headers, (RESPONSE_HEADER.encode(), self._times.format().encode())]


class TimingEdge(Edge):
    """Adds the times to the headers of HTTP responses and to the trailers of RPCs."""

    def http(self, serve: Serve) -> Serve:
        header = REQUEST_HEADER.encode()

        def serve_timed(
            exchange: Any, route: Any, method: str = "POST", query: bytes = b""
        ) -> Coroutine[Any, Any, int]:
            if exchange.head.find(header) is None:
                return serve(exchange, route, method, query)
            times = Times()
            return _run_timed(serve(TimedExchange(exchange, times), route, method, query), times)

        return serve_timed

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        def serve_timed(incoming: bytes | None, context: Any) -> Awaitable[bytes | None]:
            try:
                requested = context.metadata.find(REQUEST_HEADER)
            except InvalidRequest:  # `serve` raises the error again and counts it.
                requested = None
            return serve(incoming, context) if requested is None else _serve_rpc(serve, incoming, context)

        return serve_timed if infers else serve


async def _serve_rpc(serve: ServeBytes, incoming: bytes | None, context: Any) -> bytes | None:
    times = Times()
    try:
        return await _run_timed(serve(incoming, context), times)
    finally:
        context.add_trailing_metadata(((RESPONSE_HEADER, times.format()),))


async def _run_timed(serving: Awaitable[T], times: Times) -> T:
    token = _times.set(times)
    try:
        return await serving
    finally:
        _times.reset(token)


def build_edge(parts: ServerParts) -> TimingEdge:
    return TimingEdge()


def timing(model: StagedModel, shared: StageContext) -> StagedModel:
    """Measure a model's calls, except hits of the response cache, which is outside."""
    return model.around(time_calls(model.handler))
