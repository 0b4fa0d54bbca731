"""The REST application: what the dialects claim, and the models' own routes."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Protocol

from ...concurrency.inflight import RequestBytes
from ...concurrency.scope import is_own_cancel
from ...dataplane.access import Action
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...dataplane.json_limits import json_limits
from ...errors import ModelNotFound, ModelNotReady, PermissionDenied
from ...protos.json_checks import JsonLimits
from ...settings import Settings
from ...telemetry import probes
from ...telemetry.metrics import Meters
from ...types import Headers
from ..connections import SCOPE_KEY, ScopeOrigin, below
from ..edge import Edge, ServeOther
from ..request_ids import RequestIds
from .custom import NOT_ALLOWED, CustomRoutes
from .dialects.base import ReadRoute, Route
from .dialects.metadata import ROOT
from .exchange import AsgiExchange
from .inference import InferenceDoor, queried
from .layers import IdentifiedApp, noted_send
from .messages import (
    BODY_SETTING,
    JSON,
    PREFIX,
    ClientLeft,
    Head,
    RawHeaders,
    Receive,
    Scope,
    Send,
    error_response,
    read_body,
    respond,
    wrap,
)
from .origins import Origins
from .routing import build_routes
from .websocket import WebSocketDoor

logger = logging.getLogger("inferstream.rest")


class AsgiEndpoint(Protocol):
    """An ASGI application of another room, which has requests that no dialect claims."""

    @property
    def allowed_headers(self) -> Sequence[str]:
        """Headers that pages of other origins may send, if they may use the server at all."""

    @property
    def exposed_headers(self) -> Sequence[str]:
        """Headers that such pages may read."""

    def claims(self, scope: Scope) -> bool:
        """Whether the application serves this request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class RestApp:
    """Every route of HTTP as an ASGI application; `inferences` alone serve one, whichever way it came."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: Meters,
        edges: Sequence[Edge] = (),
        beside: AsgiEndpoint | None = None,
    ) -> None:
        """`edges` are around all that is served, except `beside`, which has routes of its own."""
        self.routes = build_routes(dataplane, settings, meters, dataplane.custom_routes)
        self.websocket = WebSocketDoor(dataplane, settings, meters, edges)
        self._json = json_limits(settings)
        self._serve_other: ServeOther = self._serve
        for edge in edges:
            self._serve_other = edge.request(self._serve_other)
        self.inferences = InferenceDoor(dataplane, settings, meters.rest, self._json, edges)
        self._origins = Origins(settings)
        self._profile = settings.status_profile
        self._limit = min(settings.max_body_bytes, MOST_READ)
        self._limiting = BODY_SETTING if settings.max_body_bytes <= MOST_READ else ""
        self._dataplane = dataplane
        self.inflight = meters.inflight
        self._custom = CustomRoutes(dataplane, settings, self.routes)
        self.beside = beside
        self.entry: Any = IdentifiedApp(self, RequestIds.of(settings))
        """The application to serve: this one, or what stands in front of it."""
        if settings.cors_settings is not None:
            from starlette.middleware.cors import CORSMiddleware  # late, as FastAPI is

            rules = settings.cors_settings.model_dump()
            if beside is not None:
                rules["allow_headers"] += beside.allowed_headers
                rules["expose_headers"] += beside.exposed_headers
            self.entry = CORSMiddleware(self.entry, **rules)
        if settings.root_path:
            self.entry = partial(_serve_below, settings.root_path, self.entry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.of_path(scope["path"], scope["method"])
        if not isinstance(route, Route):
            if route is None and self.beside is not None and self.beside.claims(scope):
                await self.beside(scope, receive, send)
            else:
                await self._serve_other(route, scope, receive, send)
        elif (method := scope["method"]) in route.dialect.methods or self.inferences.serves(
            route, method, scope["headers"]
        ):
            method = "POST" if method in route.dialect.methods else method
            json = self._json if route.dialect.takes_json else None
            async with self._exchange(scope, receive, send, json) as exchange:
                query = scope.get("query_string", b"")
                await self.inferences.serve(exchange, route, method, query)
        else:
            off = method == "GET" and queried(route)
            allow = (b"allow", ", ".join(route.dialect.methods).encode())
            await respond(send, 405, GET_IS_OFF if off else NOT_ALLOWED, [JSON, allow])

    async def _serve(self, route: ReadRoute | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is no inference."""
        if not scope["path"].startswith(probes.PATHS):
            lines = self._dataplane.lines
            if lines.on or logger.isEnabledFor(logging.DEBUG):
                send = noted_send(scope, send, lines)
        if not is_probe(scope["path"], scope["headers"]):
            try:
                self._origins.check(scope["headers"])
            except PermissionDenied as error:
                answer = error_response(error, self._profile) if route is None else route.dialect.error(error)
                await respond(send, answer[0], answer[2], answer[1])
                return
        caller = Caller(Headers(scope["headers"], None, ScopeOrigin(scope)), "http")
        if route is None:
            await self._custom.serve(self._exchange(scope, receive, send, None), scope, send, caller)
            return
        try:
            status, headers, body = await self._read(route, scope, receive, caller)
        except ClientLeft:  # before it has sent its body
            return
        if isinstance(body, bytes):
            await respond(send, status, body, headers, typed_last=not route.dialect.of_models)
        else:
            await self._stream(self._exchange(scope, receive, send, self._json), headers, body)

    def _exchange(self, scope: Scope, receive: Receive, send: Send, json: JsonLimits | None) -> AsgiExchange:
        # Naming the loop spares Python 3.11 the system call with which it would look for it.
        connection = scope.get(SCOPE_KEY)
        task = asyncio.current_task(None if connection is None else connection.loop)
        assert task is not None
        exchange = AsgiExchange(scope, receive, send, task, json)
        if connection is None:
            exchange.request_bytes = RequestBytes(self.inflight, upload=exchange)
        return exchange

    async def _stream(
        self, exchange: AsgiExchange, headers: RawHeaders, body: AsyncGenerator[bytes, None]
    ) -> None:
        """Send a body as it comes, until it ends or the client leaves."""
        async with exchange, aclosing(body):
            try:
                await exchange.body(0)
                exchange.open(headers)
                async for piece in body:
                    await exchange.send(piece)
                await exchange.send(b"", last=True)
            except BaseException as error:
                if not (isinstance(error, ClientLeft) or (exchange.left and is_own_cancel(error))):
                    raise

    async def _read(
        self, route: ReadRoute, scope: Scope, receive: Receive, caller: Caller
    ) -> tuple[int, RawHeaders, bytes | AsyncGenerator[bytes, None]]:
        """Status, headers and body of a request that is no inference. Raises ClientLeft."""
        claim, method = route.claim, scope["method"]
        if claim.methods is not None and method not in claim.methods and not route.dialect.of_models:
            return 405, [(b"allow", ", ".join(claim.methods).encode()), JSON], NOT_ALLOWED
        try:
            # The root is liveness for a probe, and the page for a browser.
            probe = is_probe(scope["path"], scope["headers"])
            action = Action.HEALTH if probe or method == "OPTIONS" else claim.action
            self._dataplane.access.check(action, caller, route.model or None)
            if claim.methods is None or method in claim.methods:
                if claim.takes_body:
                    route = route._replace(body=await self._body(scope, receive))
                return await claim.respond(route, caller, scope)
            if route.model:
                with suppress(ModelNotReady):
                    self._dataplane.model_ready(route.model, route.version)
        except ModelNotFound as error:
            if method == "POST" and method not in (claim.methods or ("POST",)):
                error.message += f": {POSTED}"
            return route.dialect.error(error)
        except ClientLeft:
            raise
        except Exception as error:
            return route.dialect.error(wrap(error))
        posted = method == "POST" and route.path.startswith("/v2/models/")
        body = (
            b'{"error":"%b"}' % (f"Method Not Allowed: {POSTED}" if posted else "Method Not Allowed").encode()
        )
        return 405, [JSON, (b"allow", ", ".join(claim.methods).encode())], body

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that is no inference. Raises what there is to refuse."""
        body = await read_body(Head(scope["headers"]), receive, self._limit, self._limiting)
        self._json.check(body)
        return body


def _serve_below(prefix: str, app: Any, scope: Scope, receive: Receive, send: Send) -> Any:
    """Serve a request of a proxy that strips the prefix, or does not."""
    if (path := below(prefix, scope["path"])) is not None:
        scope = {**scope, "path": path, PREFIX: prefix}
    return app(scope, receive, send)


MOST_READ = 64 * 1024
"""Bytes of a request that is no inference: it names a model, and is read on the event loop."""

GET_IS_OFF = b'{"error":"Method Not Allowed: the setting get_streams lets a GET run a model"}'

POSTED = "a model is sent POST at its infer, infer_stream, generate or generate_stream"
"""Most likely a slip in the last word of an inference's path."""

PROBES = frozenset(("/v2/health/live", "/v2/health/ready", "/health"))
"""Liveness and readiness: answered to every page, under every name, and while every place is taken."""


def is_probe(path: str, headers: RawHeaders) -> bool:
    """Whether a request asks for liveness or readiness. At the root, a browser asks for the page."""
    return path in PROBES or (path == ROOT and b"text/html" not in dict(headers).get(b"accept", b""))
