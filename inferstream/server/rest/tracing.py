"""Spans of HTTP requests: of each inference, and of each other request except those of health and metrics."""

from typing import TYPE_CHECKING, Any

from ...telemetry.masks import without_keys
from ...types import Headers
from ..edge import Serve
from .dialects.base import Route
from .exchange import Exchange
from .layers import UNLOGGED
from .messages import RawHeaders, Receive, Scope, Send

if TYPE_CHECKING:
    from ...telemetry.tracing import Span, Tracer

CONTEXT = (b"traceparent", b"tracestate")
"""Headers of W3C's trace context."""


def traced(tracing: "Tracer", serve: Serve) -> Serve:
    """What serves inferences, each in a span."""

    async def in_span(exchange: Exchange, route: Route, method: str = "POST", query: bytes = b"") -> int:
        path = route.template.replace("{model_name}", route.model)
        if route.version is not None:
            path = path.replace("{model_version}", route.version)
        span = _begin(tracing, method, route.template, path, exchange.scheme, exchange.headers)
        status = 499
        try:
            status = await serve(exchange, route, method, query)
            return status
        finally:
            _end(span, status)

    return in_span


class TracedApp:
    """Serves what is no inference in spans. `app` is a `RestApp`."""

    def __init__(self, tracing: "Tracer", app: Any) -> None:
        self._tracing = tracing
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        route = self._app.routes.of_path(path, scope["method"])
        beside = self._app.beside
        elsewhere = route is None and beside is not None and beside.claims(scope)  # has spans of its own
        if path.startswith(UNLOGGED) or isinstance(route, Route) or elsewhere:
            await self._app(scope, receive, send)
            return
        scheme = scope.get("scheme", "http")
        shown = without_keys(path)
        template = shown if route is None else route.path
        span = _begin(self._tracing, scope["method"], template, shown, scheme, scope["headers"])
        # A model's custom route may run in another process, which gets the headers.
        own_headers = [pair for pair in scope["headers"] if pair[0] not in CONTEXT]
        own = [(name.encode(), value.encode()) for name, value in span.carrier().items()]
        scope["headers"] = own_headers + own
        status = 499

        async def noted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            _end(span, status)


def _begin(tracing: "Tracer", method: str, route: str, path: str, scheme: str, raw: RawHeaders) -> "Span":
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
    return tracing.door(f"{method} {route}", headers, values)


def _authority(host: str) -> tuple[str, int | None]:
    """The name and the port in a `Host` header."""
    name, colon, port = host.rpartition(":")
    if colon and port.isdecimal() and len(port) <= 5:
        return name, int(port)
    return host, None


def _end(span: "Span", status: int) -> None:
    span.note({"http.response.status_code": status})
    if status < 500:
        span.end()
        return
    span.note({"error.type": str(status)})
    span.end(f"status {status}")
