"""Spans around HTTP requests and RPCs, except for health checks and metrics."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from inferstream.ext.http import AsgiScope, Edge, RawHeaders, Receive, Send, Serve, ServeBytes
from inferstream.ext.rpc import RpcFailed, StatusCode
from inferstream.ext.telemetry import mask_keys
from inferstream.types import Headers

if TYPE_CHECKING:
    from .tracing import Span, Tracer

CONTEXT = (b"traceparent", b"tracestate")
"""W3C Trace Context headers."""

ServeAsgi = Callable[[Any, AsgiScope, Receive, Send], Awaitable[None]]
"""Serves a request other than an inference, with its route or None."""

FAILURES = frozenset(
    (
        StatusCode.UNKNOWN,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.INTERNAL,
        StatusCode.UNAVAILABLE,
        StatusCode.DATA_LOSS,
    )
)
"""Server errors according to the OpenTelemetry conventions. All other statuses are client errors."""


class SpanEdge(Edge):
    """Creates spans for HTTP requests and RPCs."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self.current_span = tracer.current_span

    def http(self, serve: Serve) -> Serve:
        async def in_span(exchange: Any, route: Any, method: str = "POST", query: bytes = b"") -> int:
            path = route.template.replace("{model_name}", route.model)
            if route.version is not None:
                path = path.replace("{model_version}", route.version)
            span = self._begin(method, route.template, path, exchange.scheme, exchange.headers)
            status = 499
            try:
                status = await serve(exchange, route, method, query)
                return status
            finally:
                _end(span, status)

        return in_span

    def request(self, serve: ServeAsgi) -> ServeAsgi:
        async def in_span(route: Any, scope: AsgiScope, receive: Receive, send: Send) -> None:
            if scope["path"].startswith(self.unlogged_paths):
                await serve(route, scope, receive, send)
                return
            path, headers = mask_keys(scope["path"]), scope["headers"]
            template = path if route is None else route.path
            span = self._begin(scope["method"], template, path, scope.get("scheme", "http"), headers)
            # A custom route may run in another process, which receives the headers.
            own = [(name.encode(), value.encode()) for name, value in span.carrier().items()]
            scope["headers"] = [pair for pair in headers if pair[0] not in CONTEXT] + own
            status = 499

            async def send_and_note(message: Any) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await serve(route, scope, receive, send_and_note)
            finally:
                _end(span, status)

        return in_span

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        name = path[1:]
        if name.rpartition("/")[2] in self.unlogged_rpcs:
            return serve
        values = {"rpc.system.name": "grpc", "rpc.method": name}

        async def in_span(incoming: bytes | None, context: Any) -> bytes | None:
            span = self._tracer.start_request_span(name, Headers(context.metadata.pairs), values)
            failure: str | None = None
            code = StatusCode.CANCELLED
            try:
                response = await serve(incoming, context)
                code = StatusCode.OK
                return response
            except RpcFailed as failed:
                code = failed.code
                failure = f"{code.name}: {failed.message}" if code in FAILURES else None
                raise
            finally:
                span.note({"rpc.response.status_code": code.name})
                if failure is not None:
                    span.note({"error.type": code.name})
                span.end(failure)

        return in_span

    async def stop(self) -> None:
        await self._tracer.stop()

    def _begin(self, method: str, route: str, path: str, scheme: str, raw: RawHeaders) -> "Span":
        headers = Headers(raw)
        values: dict[str, str | int] = {
            "http.request.method": method,
            "http.route": route,
            "url.path": path,
            "url.scheme": scheme,
        }
        if host := headers.get("host"):
            address, port = _authority(host)
            values["server.address"] = address
            if port is not None:
                values["server.port"] = port
        if agent := headers.get("user-agent"):
            values["user_agent.original"] = agent
        return self._tracer.start_request_span(f"{method} {route}", headers, values)


def _authority(host: str) -> tuple[str, int | None]:
    """Return the host and port in a `Host` header."""
    name, colon, port = host.rpartition(":")
    if colon and port.isdecimal() and len(port) <= 5:
        return name, int(port)
    return host, None


def _end(span: "Span", status: int) -> None:
    span.note({"http.response.status_code": status})
    if status >= 500:
        span.note({"error.type": str(status)})
    span.end(f"status {status}" if status >= 500 else None)
