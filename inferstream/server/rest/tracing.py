"""The REST application with a span for each request, except those of health and metrics."""

from typing import Any

from ...telemetry.tracing import Span, Tracer
from ...types import Headers
from .app import UNLOGGED, RestApp
from .dialects.base import Route
from .exchange import Exchange
from .inference import InferenceDoor
from .messages import RawHeaders, Receive, Scope, Send

CONTEXT = (b"traceparent", b"tracestate")
"""Headers of W3C's trace context."""


class TracedInferences(InferenceDoor):
    """Inferences in spans."""

    def __init__(self, tracing: Tracer, *parts: Any) -> None:
        super().__init__(*parts)
        self._tracing = tracing

    async def serve(self, exchange: Exchange, route: Route, method: str = "POST", query: bytes = b"") -> int:
        path = route.template.replace("{model_name}", route.model)
        if route.version is not None:
            path = path.replace("{model_version}", route.version)
        span = _begin(self._tracing, method, route.template, path, exchange.scheme, exchange.headers)
        status = 499
        try:
            status = await super().serve(exchange, route, method, query)
            return status
        finally:
            _end(span, status)


class TracedRestApp(RestApp):
    """Replaces the application if the settings name a collector of traces."""

    def __init__(self, tracing: Tracer, *parts: Any) -> None:
        self._tracing = tracing
        super().__init__(*parts)

    def _inferences(self, *parts: Any) -> InferenceDoor:
        return TracedInferences(self._tracing, *parts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        route = self.routes.of_path(path, scope["method"])
        beside = (
            route is None and self.beside is not None and self.beside.claims(scope)
        )  # has spans of its own
        if path.startswith(UNLOGGED) or isinstance(route, Route) or beside:
            await super().__call__(scope, receive, send)
            return
        scheme = scope.get("scheme", "http")
        span = _begin(self._tracing, scope["method"], path, path, scheme, scope["headers"])
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
            await super().__call__(scope, receive, noted)
        finally:
            template = getattr(scope.get("route"), "path", None)
            if template is not None:
                template = template.replace(":path}", "}")
                span.rename(f"{scope['method']} {template}")
                span.note({"http.route": template})
            _end(span, status)


def _begin(tracing: Tracer, method: str, route: str, path: str, scheme: str, raw: RawHeaders) -> Span:
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


def _end(span: Span, status: int) -> None:
    span.note({"http.response.status_code": status})
    if status < 500:
        span.end()
        return
    span.note({"error.type": str(status)})
    span.end(f"status {status}")
