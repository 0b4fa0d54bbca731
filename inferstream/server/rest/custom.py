"""Custom routes of models: dispatch, and compression of their responses."""

from collections.abc import Awaitable, Callable
from functools import partial

import orjson

from ...concurrency.scope import ClientLeft, is_own_cancel
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...handlers import HttpRequest, HttpResponse
from ...settings import Settings
from .exchange import AsgiExchange, decompress_body
from .messages import (
    JSON,
    PREFIX,
    Head,
    Scope,
    Send,
    check_body_headers,
    choose_encoding,
    compress,
    error_response,
    respond,
    wrap,
)
from .routes import Routes

BODILESS = (204, 304)
"""Status codes whose responses have no body."""

NOT_ALLOWED = b'{"error":"Method Not Allowed"}'


class CustomRoutes:
    """Serves the custom routes of models, at paths that no dialect claims."""

    def __init__(self, dataplane: DataPlane, settings: Settings, routes: Routes) -> None:
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
        self._profile = settings.status_profile
        self._compress_from = settings.gzip_min_bytes if settings.gzip_enabled else None
        self._root_path = settings.root_path
        self._routes = routes

    async def serve(self, exchange: AsgiExchange, scope: Scope, send: Send, caller: Caller) -> None:
        method = scope["method"]
        models = self._routes.find_custom_models(scope["path"])
        if not models:
            prefix = str(scope.get(PREFIX, self._root_path))
            text = orjson.dumps({"error": self._routes.describe_missing(scope["path"], prefix)})
            await respond(send, 404, text, [JSON], typed_last=True)
            return
        if (model := models.get(method, models.get("GET") if method == "HEAD" else None)) is None:
            methods = [*models, "HEAD"] if "GET" in models and "HEAD" not in models else models
            allow = (b"allow", ", ".join(methods).encode())
            await respond(send, 405, NOT_ALLOWED, [allow, JSON], typed_last=True)
            return
        sending = _RouteSending(exchange, scope, send, self._compress)
        try:
            async with exchange:
                read = partial(self._read, scope, exchange)
                await self._dataplane.call_route(model, read, sending.write, caller)
        except BaseException as error:
            if isinstance(error, ClientLeft) or (exchange.left and is_own_cancel(error)):
                return
            if not isinstance(error, Exception):
                raise
            status, headers, text = error_response(wrap(error), self._profile)
            if sending.began:
                exchange.abort()  # only a truncated body can show the failure now
            else:
                await respond(send, status, text, headers)

    async def _read(self, scope: Scope, exchange: AsgiExchange) -> HttpRequest:
        head = exchange.head
        check_body_headers(head, self._limit, in_parts=True)
        body = await exchange.body(self._limit)
        if head.encoding or len(body) > self._limit:
            body = await decompress_body(exchange, body, self._limit)
        return HttpRequest(
            scope["method"],
            scope["path"],
            scope["query_string"],
            [*scope["headers"]],
            body,
            scope.get("client"),
            scope.get("scheme", "http"),
            scope.get(PREFIX, ""),
        )

    async def _compress(self, response: HttpResponse, head: Head) -> HttpResponse:
        """Compress a complete response if the client accepts it.

        Streamed and partial responses (206) and responses with a Content-Encoding are returned unchanged.
        """
        status, headers, body, rest = response
        if (
            self._compress_from is None
            or len(body) < max(self._compress_from, 1)
            or rest is not None
            or status == 206
            or any(name == b"content-encoding" for name, _ in headers)
        ):
            return response
        headers = [*headers, (b"vary", b"accept-encoding")]  # caches store responses to GET
        if (encoding := choose_encoding(head.accept_encoding)) is None:
            return HttpResponse(status, headers, body)
        return HttpResponse(
            status, [*headers, (b"content-encoding", encoding)], await compress(body, encoding)
        )


class _RouteSending:
    """Sends the response of a custom route, complete or streamed."""

    def __init__(
        self,
        exchange: AsgiExchange,
        scope: Scope,
        send: Send,
        compressed: Callable[[HttpResponse, Head], Awaitable[HttpResponse]],
    ) -> None:
        self._exchange = exchange
        self._is_head = scope["method"] == "HEAD"
        self._send = send
        self._compressed = compressed
        self.began = False

    async def write(self, response: HttpResponse, count: Callable[[int], None]) -> None:
        """Send a response, and pass the size of each part of the body to `count`."""
        if not self._is_head:
            response = await self._compressed(response, self._exchange.head)
        status, headers, body, rest = response
        if rest is None and not (self._is_head or status in BODILESS):
            headers = [*headers, (b"content-length", b"%d" % len(body))]
        self._exchange.answered = rest is None
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        self.began = True
        while rest is not None:
            if body:
                count(len(body))
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
            if not (body := await rest.read()):
                break
        self._exchange.answered = True
        count(len(body))
        await self._send({"type": "http.response.body", "body": body})
