"""The REST application: the routes of the dialects, and the custom routes of models."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Protocol

import orjson

from ...concurrency.inflight import RequestBytes
from ...concurrency.scope import is_own_cancel
from ...dataplane.access import Action
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...dataplane.json_limits import json_limits
from ...errors import HINT, ModelNotFound, ModelNotReady, PermissionDenied
from ...protos.json_checks import JsonLimits
from ...settings import Settings
from ...telemetry import probes
from ...telemetry.metrics import Meters
from ...types import Headers
from ..connections import SCOPE_KEY, ScopeOrigin, relative_path
from ..edge import Edge, ServeOther
from ..request_ids import RequestIds
from .custom import NOT_ALLOWED, CustomRoutes
from .dialects.base import ReadRoute, Route
from .dialects.metadata import ROOT
from .exchange import AsgiExchange
from .inference import InferenceDoor, allows_get
from .layers import IdentifiedApp, log_responses
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
    """An ASGI application for the requests that no dialect claims, such as gRPC-Web."""

    @property
    def allowed_headers(self) -> Sequence[str]:
        """Request headers that pages from other origins may send if CORS allows the origin."""

    @property
    def exposed_headers(self) -> Sequence[str]:
        """Response headers that pages from other origins may read."""

    def claims(self, scope: Scope) -> bool:
        """Whether the application serves this request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class RestApp:
    """All HTTP routes as an ASGI application.

    `inferences` serves the inference routes, and can also be called without ASGI.
    """

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: Meters,
        edges: Sequence[Edge] = (),
        beside: AsgiEndpoint | None = None,
    ) -> None:
        """Wrap all routes in the `edges`, except the routes that `beside` serves."""
        self.routes = build_routes(dataplane, settings, meters, dataplane.custom_routes)
        self.websocket = WebSocketDoor(dataplane, settings, meters, edges)
        self._json = json_limits(settings)
        self._serve_other: ServeOther = self._serve
        for edge in edges:
            self._serve_other = edge.request(self._serve_other)
        self.inferences = InferenceDoor(dataplane, settings, meters.rest, self._json, edges)
        self._origins = Origins(settings)
        self._profile = settings.status_profile
        self._root_path = settings.root_path
        self._limit = min(settings.max_body_bytes, MAX_READ)
        self._limiting = BODY_SETTING if settings.max_body_bytes <= MAX_READ else ""
        self._dataplane = dataplane
        self.inflight = meters.inflight
        self._custom = CustomRoutes(dataplane, settings, self.routes)
        self.beside = beside
        self.entry: Any = IdentifiedApp(self, RequestIds.of(settings))
        """The application to serve: this one, wrapped in request ids, CORS and the root path."""
        if settings.cors_settings is not None:
            # Imported lazily: most servers do not use CORS.
            from starlette.middleware.cors import CORSMiddleware

            rules = settings.cors_settings.model_dump()
            if beside is not None:
                rules["allow_headers"] += beside.allowed_headers
                rules["expose_headers"] += beside.exposed_headers
            self.entry = CORSMiddleware(self.entry, **rules)
        if settings.root_path:
            self.entry = partial(_serve_below, settings.root_path, self.entry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.find_route(scope["path"], scope["method"])
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
            async with self._build_exchange(scope, receive, send, json) as exchange:
                query = scope.get("query_string", b"")
                await self.inferences.serve(exchange, route, method, query)
        else:
            off = method == "GET" and allows_get(route)
            allow = (b"allow", ", ".join(route.dialect.methods).encode())
            path = f"{scope.get(PREFIX, self._root_path)}{scope['path']}"
            text = orjson.dumps({"error": f"Method Not Allowed{HINT}POST {path}"})
            await respond(send, 405, GET_IS_OFF if off else text, [JSON, allow])

    async def _serve(self, route: ReadRoute | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is not an inference."""
        if not scope["path"].startswith(probes.PATHS):
            lines = self._dataplane.lines
            if lines.on or logger.isEnabledFor(logging.DEBUG):
                send = log_responses(scope, send, lines)
        if not is_probe(scope["path"], scope["headers"]):
            try:
                self._origins.check(scope["headers"])
            except PermissionDenied as error:
                answer = error_response(error, self._profile) if route is None else route.dialect.error(error)
                await respond(send, answer[0], answer[2], answer[1])
                return
        caller = Caller(Headers(scope["headers"], None, ScopeOrigin(scope)), "http")
        if route is None:
            await self._custom.serve(self._build_exchange(scope, receive, send, None), scope, send, caller)
            return
        try:
            status, headers, body = await self._read(route, scope, receive, caller)
        except ClientLeft:  # the client disconnected before it had sent its body
            return
        if isinstance(body, bytes):
            await respond(send, status, body, headers, typed_last=not route.dialect.of_models)
        else:
            await self._stream(self._build_exchange(scope, receive, send, self._json), headers, body)

    def _build_exchange(
        self, scope: Scope, receive: Receive, send: Send, json: JsonLimits | None
    ) -> AsgiExchange:
        # Passing the loop to current_task saves a system call on Python 3.11.
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
        """Stream a body until it ends or the client disconnects."""
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
        """Return the status, headers and body for a request that is not an inference. Raises ClientLeft."""
        claim, method = route.claim, scope["method"]
        if claim.methods is not None and method not in claim.methods and not route.dialect.of_models:
            return 405, [(b"allow", ", ".join(claim.methods).encode()), JSON], NOT_ALLOWED
        try:
            # At the root, a probe receives the liveness response, and a browser receives the web page.
            probe = is_probe(scope["path"], scope["headers"])
            action = Action.HEALTH if probe or method == "OPTIONS" else claim.action
            self._dataplane.access.check(action, caller, route.model or None)
            if claim.methods is None or method in claim.methods:
                if claim.takes_body:
                    route = route._replace(body=await self._read_body(scope, receive))
                return await claim.respond(route, caller, scope)
            if route.model:
                with suppress(ModelNotReady):
                    self._dataplane.model_ready(route.model, route.version)
        except ModelNotFound as error:
            if method == "POST" and method not in (claim.methods or ("POST",)):
                error.message += POSTED
            return route.dialect.error(error)
        except ClientLeft:
            raise
        except Exception as error:
            return route.dialect.error(wrap(error))
        posted = method == "POST" and route.path.startswith("/v2/models/")
        body = (
            b'{"error":"%b"}' % (f"Method Not Allowed{POSTED}" if posted else "Method Not Allowed").encode()
        )
        return 405, [JSON, (b"allow", ", ".join(claim.methods).encode())], body

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """Read and check the body of a request that is not an inference.

        Raises PayloadTooLarge, UnsupportedEncoding, InvalidRequest or ClientLeft.
        """
        body = await read_body(Head(scope["headers"]), receive, self._limit, self._limiting)
        self._json.check(body)
        return body


def _serve_below(prefix: str, app: Any, scope: Scope, receive: Receive, send: Send) -> Any:
    """Serve a request under a prefix, whether or not the proxy in front strips it."""
    if (path := relative_path(prefix, scope["path"])) is not None:
        scope = {**scope, "path": path, PREFIX: prefix}
    return app(scope, receive, send)


MAX_READ = 64 * 1024
"""Maximum bytes of a body that is not an inference. Such bodies are small and parsed on the event loop."""

GET_IS_OFF = b'{"error":"Method Not Allowed: the setting get_streams lets a GET run a model"}'

POSTED = f"{HINT}POST /v2/models/NAME/infer, infer_stream, generate or generate_stream calls a model"
"""Hint for a POST to an unknown path below a model, most likely a typo in the last segment."""

PROBES = frozenset(("/v2/health/live", "/v2/health/ready", "/health"))
"""Paths of liveness and readiness probes.

They are open to pages from any origin and under any host name, even if all connection slots are taken.
"""


def is_probe(path: str, headers: RawHeaders) -> bool:
    """Whether a request is a liveness or readiness probe.

    The root path counts as a probe unless the client accepts HTML: a browser receives the web page there.
    """
    return path in PROBES or (path == ROOT and b"text/html" not in dict(headers).get(b"accept", b""))
