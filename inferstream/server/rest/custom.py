"""Sends requests to custom routes of models, and compresses their responses."""

from functools import partial

from ...concurrency.scope import ClientLeft
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...handlers import HttpRequest, HttpResponse
from ...settings import Settings
from .messages import (
    JSON,
    Head,
    Receive,
    Scope,
    Send,
    accepted,
    compress,
    error_response,
    read_body,
    respond,
    wrap,
)
from .routes import Routes

NOT_ALLOWED = b'{"error":"Method Not Allowed"}'


class CustomRoutes:
    """Serves the paths that no dialect claims."""

    def __init__(self, dataplane: DataPlane, settings: Settings, routes: Routes) -> None:
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
        self._profile = settings.status_profile
        self._compress_from = settings.gzip_min_bytes if settings.gzip_enabled else None
        self._routes = routes

    async def serve(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        models = self._routes.own(scope["path"])
        if not models:
            await respond(send, 404, b'{"error":"Not Found"}', [JSON], typed_last=True)
            return
        if (model := models.get(scope["method"])) is None:
            allow = (b"allow", ", ".join(models).encode())
            await respond(send, 405, NOT_ALLOWED, [allow, JSON], typed_last=True)
            return
        try:
            head = Head(scope["headers"])
            read = partial(self._read, scope, receive, head)
            response = await self._compressed(await self._dataplane.call_route(model, read, caller), head)
        except ClientLeft:
            return
        except Exception as error:
            status, headers, text = error_response(wrap(error), self._profile)
            await respond(send, status, text, headers)
        else:
            await respond(send, response.status, response.body, response.headers)

    async def _read(self, scope: Scope, receive: Receive, head: Head) -> HttpRequest:
        body = await read_body(head, receive, self._limit)
        headers = list(scope["headers"])
        return HttpRequest(scope["method"], scope["path"], scope["query_string"], headers, body)

    async def _compressed(self, response: HttpResponse, head: Head) -> HttpResponse:
        """The response, compressed if the client accepts it and it is neither compressed nor partial."""
        status, headers, body = response
        if (
            self._compress_from is None
            or len(body) < max(self._compress_from, 1)
            or status == 206
            or any(name == b"content-encoding" for name, _ in headers)
        ):
            return response
        headers = [*headers, (b"vary", b"accept-encoding")]  # the route may be a GET, which caches store
        if (encoding := accepted(head.accept_encoding)) is None:
            return HttpResponse(status, headers, body)
        return HttpResponse(
            status, [*headers, (b"content-encoding", encoding)], await compress(body, encoding)
        )
