"""Sends requests to custom routes of models, and compresses their responses."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import compile_path
from starlette.types import ASGIApp

from ...concurrency.scope import ClientLeft
from ...dataplane.dataplane import DataPlane
from ...handlers import HttpRequest, HttpResponse
from ...settings import Settings
from .messages import (
    CALLER,
    Head,
    Receive,
    Scope,
    Send,
    accepted,
    compress,
    error_response,
    read_body,
    receive_all,
    respond,
    wrap,
)


class CustomRoutes:
    """Serves the paths for which FastAPI has no route, and passes all others to `otherwise`."""

    def __init__(self, dataplane: DataPlane, settings: Settings, otherwise: ASGIApp) -> None:
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
        self._profile = settings.status_profile
        self._compress_from = settings.gzip_min_bytes if settings.gzip_enabled else None
        self._otherwise = otherwise
        self._known: Iterable[Any] = ()
        self._routes: list[tuple[str, Any, str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        models = self._find(scope["path"]) if scope["type"] == "http" else {}
        if not models:
            await self._otherwise(scope, receive, send)
            return
        if (model := models.get(scope["method"])) is None:
            raise HTTPException(405, headers={"allow": ", ".join(models)})
        try:
            head = Head(scope["headers"])
            body = await read_body(head, partial(receive_all, receive), self._limit)
            request = HttpRequest(
                scope["method"], scope["path"], scope["query_string"], list(scope["headers"]), body
            )
            response = await self._compressed(
                await self._dataplane.call_route(model, request, scope[CALLER]), head
            )
        except ClientLeft:
            return
        except Exception as error:
            status, headers, text = error_response(wrap(error), self._profile)
            await respond(send, status, text, headers)
        else:
            await respond(send, response.status, response.body, response.headers)

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

    def _find(self, path: str) -> dict[str, str]:
        """The models with a route of this path, by method."""
        routes = self._dataplane.custom_routes()
        if routes is not self._known:
            self._known = routes
            self._routes = [
                (handler.rest_method, compile_path(handler.rest_path)[0], model) for handler, model in routes
            ]
        models: dict[str, str] = {}
        for method, pattern, model in self._routes:
            if pattern.match(path):
                models.setdefault(method, model)
        return models
