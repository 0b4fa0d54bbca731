"""Middleware with BlazeRPC names: base classes, logging and metrics."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from prometheus_client import Counter, Histogram

from inferstream.errors import MissingExtra, Unsupported

from .grpclib import RecvRequest, SendTrailingMetadata, to_http_status

log = logging.getLogger("blazerpc.middleware")


class Middleware(ABC):
    """Base class of objects for `BlazeApp(middleware=[...])`, which run on every call of the app's models."""

    def attach(self, server: Any) -> None:
        """Raise Unsupported, because the server is not based on grpclib."""
        raise Unsupported("give middleware to the app: BlazeApp(middleware=[...])")

    @abstractmethod
    async def on_request(self, event: RecvRequest) -> None:
        """Called before the model. An exception rejects the call. A GRPCError sets its status."""

    @abstractmethod
    async def on_response(self, event: SendTrailingMetadata) -> None:
        """Called when the call has ended."""


class LoggingMiddleware(Middleware):
    """Logs the path, client and status of each call."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._log = logger or log

    async def on_request(self, event: RecvRequest) -> None:
        self._log.info("RPC request: %s from %s", event.method_name, event.peer or "unknown")

    async def on_response(self, event: SendTrailingMetadata) -> None:
        self._log.info(
            "RPC response: %s status=%s message=%s",
            event.method_name,
            event.status.name,
            event.status_message or "",
        )


class Quiet(Middleware):
    """Base class of middleware that implements only some of the methods."""

    async def on_request(self, event: RecvRequest) -> None: ...

    async def on_response(self, event: SendTrailingMetadata) -> None: ...


class MetricsMiddleware(Quiet):
    """Exports call counts and durations to the server's Prometheus metrics."""

    def __init__(self) -> None:
        self._count, self._seconds = _meters("blazerpc_request", "blazerpc_requests_total", "method")

    async def on_response(self, event: SendTrailingMetadata) -> None:
        self._count.labels(event.method_name, str(event.status.value)).inc()
        self._seconds.labels(event.method_name).observe(event.seconds)


class OTelMetricsMiddleware(Quiet):
    """Records call counts and durations with OpenTelemetry, by default with the global meter provider."""

    def __init__(self, meter: Any = None) -> None:
        if meter is None:
            try:
                from opentelemetry import metrics
            except ModuleNotFoundError as missing:
                raise MissingExtra("OTelMetricsMiddleware", "tracing", missing) from None
            meter = metrics.get_meter("blazerpc")
        self._count = meter.create_counter("blazerpc.rpc.count", description="Calls that have ended")
        self._seconds = meter.create_histogram("blazerpc.rpc.duration", "s", "Seconds of a call")

    async def on_response(self, event: SendTrailingMetadata) -> None:
        self._count.add(1, {"method": event.method_name, "status": str(event.status.value)})
        self._seconds.record(event.seconds, {"method": event.method_name})


class ExceptionMiddleware(Quiet):
    """Maps exceptions of functions to statuses. Subclasses set `statuses`."""

    statuses: ClassVar[Mapping[type[Exception], Any]] = {}
    """gRPC statuses by exception class. The nearest base class applies."""


@dataclass
class RequestInfo:
    """A received call, over any transport."""

    method: str
    peer: str
    headers: Mapping[str, str]
    transport: str


@dataclass
class ResponseInfo:
    """The end of a call, over any transport. `status` is an HTTP status, and `duration` is in seconds."""

    status: int
    duration: float
    transport: str


class TransportMiddleware(ABC):
    """Like `Middleware`, with HTTP statuses instead of gRPC events."""

    @abstractmethod
    async def on_request(self, info: RequestInfo) -> None:
        """Called before the model."""

    @abstractmethod
    async def on_response(self, info: ResponseInfo) -> None:
        """Called when the call has ended."""

    def as_middleware(self) -> Middleware:
        """Adapt this object to the `Middleware` interface."""
        return OfTransport(self)


class OfTransport(Middleware):
    """Adapts a `TransportMiddleware` to the `Middleware` interface."""

    def __init__(self, inner: TransportMiddleware) -> None:
        self._inner = inner

    async def on_request(self, event: RecvRequest) -> None:
        info = RequestInfo(event.method_name, str(event.peer), event.metadata, event.transport)
        await self._inner.on_request(info)

    async def on_response(self, event: SendTrailingMetadata) -> None:
        await self._inner.on_response(
            ResponseInfo(to_http_status(event.status), event.seconds, event.transport)
        )


class TransportLoggingMiddleware(TransportMiddleware):
    """Logs the transport, path, client and status of each call."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._log = logger or log

    async def on_request(self, info: RequestInfo) -> None:
        self._log.info("[%s] Request: %s from %s", info.transport, info.method, info.peer or "unknown")

    async def on_response(self, info: ResponseInfo) -> None:
        self._log.info("[%s] Response: status=%s duration=%.3fs", info.transport, info.status, info.duration)


class TransportMetricsMiddleware(TransportMiddleware):
    """Exports call counts and durations by transport to Prometheus."""

    def __init__(self) -> None:
        self._count, self._seconds = _meters(
            "blazerpc_transport_request", "blazerpc_transport_requests_total", "method", "transport"
        )

    async def on_request(self, info: RequestInfo) -> None:
        """Do nothing: the duration is available only at the end of the call."""

    async def on_response(self, info: ResponseInfo) -> None:
        # Empty, as in BlazeRPC, whose response events have no method.
        self._count.labels("", str(info.status), info.transport).inc()
        self._seconds.labels("", info.transport).observe(info.duration)


@cache
def _meters(stem: str, counter: str, method: str, *more: str) -> tuple[Counter, Histogram]:
    """Return the counter and histogram of a middleware class. Created once per process."""
    count = Counter(counter, "Calls that have ended", [method, "status", *more])
    return count, Histogram(f"{stem}_duration_seconds", "Seconds of a call", [method, *more])
