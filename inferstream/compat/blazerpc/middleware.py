"""Middleware under BlazeRPC's names: its base classes, log lines and metrics."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from prometheus_client import Counter, Histogram

from inferstream.errors import Unsupported

from .grpclib import RecvRequest, SendTrailingMetadata, http_of

log = logging.getLogger("blazerpc.middleware")


class Middleware(ABC):
    """Sees every call of an app's models. `BlazeApp(middleware=[...])` gets its objects."""

    def attach(self, server: Any) -> None:
        """Raises Unsupported, because the server is not grpclib's."""
        raise Unsupported("give middleware to the app: BlazeApp(middleware=[...])")

    @abstractmethod
    async def on_request(self, event: RecvRequest) -> None:
        """Runs before the model. An exception refuses the call: a GRPCError with its status."""

    @abstractmethod
    async def on_response(self, event: SendTrailingMetadata) -> None:
        """Runs when the call has ended."""


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
    """The base of middleware that does nothing at one of the two, or at both."""

    async def on_request(self, event: RecvRequest) -> None: ...

    async def on_response(self, event: SendTrailingMetadata) -> None: ...


class MetricsMiddleware(Quiet):
    """Counts calls and their seconds for Prometheus. The server's metrics page shows them."""

    def __init__(self) -> None:
        self._count, self._seconds = _meters("blazerpc_request", "blazerpc_requests_total", "method")

    async def on_response(self, event: SendTrailingMetadata) -> None:
        self._count.labels(event.method_name, str(event.status.value)).inc()
        self._seconds.labels(event.method_name).observe(event.seconds)


class OTelMetricsMiddleware(Quiet):
    """Counts calls and their seconds by OpenTelemetry's API, with the meter provider of the program or a meter."""

    def __init__(self, meter: Any = None) -> None:
        if meter is None:
            try:
                from opentelemetry import metrics
            except ModuleNotFoundError as missing:
                raise ModuleNotFoundError(
                    'OTelMetricsMiddleware needs opentelemetry: pip install "inferstream[tracing]"'
                ) from missing
            meter = metrics.get_meter("blazerpc")
        self._count = meter.create_counter("blazerpc.rpc.count", description="Calls that have ended")
        self._seconds = meter.create_histogram("blazerpc.rpc.duration", "s", "Seconds of a call")

    async def on_response(self, event: SendTrailingMetadata) -> None:
        self._count.add(1, {"method": event.method_name, "status": str(event.status.value)})
        self._seconds.record(event.seconds, {"method": event.method_name})


class ExceptionMiddleware(Quiet):
    """Gives exceptions of functions a status: a subclass sets `statuses`."""

    statuses: ClassVar[Mapping[type[Exception], Any]] = {}
    """Statuses of gRPC by class of exception; the nearest base class counts."""


@dataclass
class RequestInfo:
    """A call that has arrived over any transport."""

    method: str
    peer: str
    headers: Mapping[str, str]
    transport: str


@dataclass
class ResponseInfo:
    """The end of a call over any transport. `status` is that of HTTP, `duration` is in seconds."""

    status: int
    duration: float
    transport: str


class TransportMiddleware(ABC):
    """The same as `Middleware`, for authors that think of HTTP."""

    @abstractmethod
    async def on_request(self, info: RequestInfo) -> None:
        """Runs before the model."""

    @abstractmethod
    async def on_response(self, info: ResponseInfo) -> None:
        """Runs when the call has ended."""

    def as_middleware(self) -> Middleware:
        """This object as the server calls it."""
        return OfTransport(self)


class OfTransport(Middleware):
    """Shows a `TransportMiddleware` the events in its form."""

    def __init__(self, inner: TransportMiddleware) -> None:
        self._inner = inner

    async def on_request(self, event: RecvRequest) -> None:
        info = RequestInfo(event.method_name, str(event.peer), event.metadata, event.transport)
        await self._inner.on_request(info)

    async def on_response(self, event: SendTrailingMetadata) -> None:
        await self._inner.on_response(ResponseInfo(http_of(event.status), event.seconds, event.transport))


class TransportLoggingMiddleware(TransportMiddleware):
    """Logs the path, client and status of each call, with its transport."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._log = logger or log

    async def on_request(self, info: RequestInfo) -> None:
        self._log.info("[%s] Request: %s from %s", info.transport, info.method, info.peer or "unknown")

    async def on_response(self, info: ResponseInfo) -> None:
        self._log.info("[%s] Response: status=%s duration=%.3fs", info.transport, info.status, info.duration)


class TransportMetricsMiddleware(TransportMiddleware):
    """Counts calls and their seconds by transport for Prometheus."""

    def __init__(self) -> None:
        self._count, self._seconds = _meters(
            "blazerpc_transport_request", "blazerpc_transport_requests_total", "method", "transport"
        )

    async def on_request(self, info: RequestInfo) -> None:
        """Nothing: the end of a call has its duration."""

    async def on_response(self, info: ResponseInfo) -> None:
        # As in BlazeRPC, the method is empty.
        self._count.labels("", str(info.status), info.transport).inc()
        self._seconds.labels("", info.transport).observe(info.duration)


@cache
def _meters(stem: str, counter: str, method: str, *more: str) -> tuple[Counter, Histogram]:
    """The counter and the histogram of a kind of middleware, once per process."""
    count = Counter(counter, "Calls that have ended", [method, "status", *more])
    return count, Histogram(f"{stem}_duration_seconds", "Seconds of a call", [method, *more])
