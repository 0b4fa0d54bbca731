"""The HTTP ports of a server, REST and metrics, with the limits and certificates of its settings."""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from ...dataplane.access import Action
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...errors import InferstreamError
from ...extensions.entries import DIALECTS
from ...extensions.loading import load_group
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...types import Headers
from ..connections import ScopeOrigin, strip_slashes
from ..http1.exchange import Openings
from ..http1.guard import PortLimits
from ..http1.port import Http1Port
from ..http1.service import Service
from ..options import parse_http_options
from ..tls import load_certificates
from .app import PROBES, RestApp
from .dialects.base import ReadRoute
from .dialects.metadata import Metadata
from .dialects.metrics import MetricsRoute
from .messages import COUNT_ON_ARRIVAL, JSON, Head, Receive, Scope, Send, error_response, respond
from .origins import Origins
from .routes import is_permanent
from .sockets import WebSocket
from .streams.accepting import StreamRequests

logger = logging.getLogger("inferstream.rest")

METRICS_CONNECTIONS = 128
"""Maximum connections to the metrics port. Each takes a file descriptor from inference clients."""


class HttpServer(Http1Port):
    """One HTTP port, with the limits and certificates of its settings.

    Its options and certificates are in `custom_rest_server_settings` or `custom_metrics_server_settings`,
    depending on `name`. Raises InvalidSettings.
    """

    def __init__(self, service: Service, settings: Settings, name: Literal["rest", "metrics"]) -> None:
        source = f"_custom_{name}_server_settings"
        custom: dict[str, Any] | None = getattr(settings, source[1:])
        self._certificates = load_certificates(custom or {}, settings.model_repository_root, source)
        options = parse_http_options(custom, source)
        most = settings.max_connections
        limits = PortLimits(
            most if name == "rest" else min(most, METRICS_CONNECTIONS),
            settings.header_timeout,
            settings.body_timeout,
            options.timeout_keep_alive,
            settings.stream_stall_timeout,
        )
        context = None if self._certificates is None else self._certificates.context
        openings = Openings(options.common, options.date_header)
        super().__init__(service, limits, openings, backlog=options.backlog, context=context)
        self._renewing: asyncio.Task[None] | None = None

    def build_stream_requests(self, service: Service) -> StreamRequests:
        """Return the object that accepts HTTP/2 requests on this port."""
        return StreamRequests(service, self.openings, self.scheme)

    async def start(self, sock: socket.socket) -> None:
        await super().start(sock)
        if self._certificates is not None:
            self._renewing = asyncio.create_task(self._certificates.watch(logger))

    async def stop(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        await super().stop()


def build_rest_service(rest: RestApp, settings: Settings) -> Service:
    """Return the REST application as a port service, which serves small inference requests without ASGI."""
    route, prefix = rest.routes.find_inference_route, settings.root_path
    if prefix:
        route = partial(_route_below, prefix.encode(), route)
    return Service(
        rest.entry,
        frozenset(path.encode() for probe in PROBES for path in (probe, prefix + probe)),
        partial(WebSocket, rest.websocket),
        # With CORS, all requests go through ASGI, because the middleware adds headers.
        -1 if settings.cors_settings else min(settings.max_body_bytes, COUNT_ON_ARRIVAL),
        route,
        is_permanent,
        Head,
        rest.inferences.begin,
        rest.inflight,
    )


def _route_below(prefix: bytes, route: Callable[[bytes], Any], target: bytes) -> Any:
    return route(target[len(prefix) :] if target.startswith(prefix + b"/") else target)


def build_metrics_service(meters: Meters, settings: Settings, dataplane: DataPlane) -> Service:
    """Return the service of the metrics port. Its health routes need no key."""
    joining = (
        kind for _, kind in load_group(DIALECTS, settings.strict) if getattr(kind, "of_metrics", False)
    )
    dialects = [kind(dataplane, settings, meters) for kind in (MetricsRoute, *joining)]
    reads = {strip_slashes(claim.path): (each, claim) for each in dialects for claim in each.reads()}
    health = Metadata(dataplane, settings, meters)
    reads |= {claim.path: (health, claim) for claim in health.reads() if claim.path in PROBES}
    origins = Origins(settings)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        route, claim = reads.get(scope["path"], (None, None))
        caller = Caller(Headers(scope["headers"], None, ScopeOrigin(scope)), "http")
        try:
            if route is health:
                dataplane.access.check(Action.HEALTH, caller)
            else:
                origins.check(scope["headers"])
                if not dataplane.access.metrics_port_open:
                    dataplane.access.check(Action.METRICS, caller)
        except InferstreamError as error:
            status, headers, body = error_response(error, settings.status_profile)
            await respond(send, status, body, headers)
            return
        if claim is not None and scope["method"] in (claim.methods or ()):
            status, headers, text = await claim.respond(ReadRoute(claim.path, claim, route), caller, scope)
            assert isinstance(text, bytes)
            await respond(send, status, text, headers)
        else:
            await respond(send, 404, b'{"error":"Not Found"}', [JSON])

    return Service(app, frozenset(path.encode() for path in PROBES))
