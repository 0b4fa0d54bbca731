"""Finds the model that a route of a model's own belongs to."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from starlette.routing import compile_path
from starlette.types import ASGIApp

from ...dataplane.dataplane import DataPlane
from ...dataplane.execution.base import Execution
from ...handlers import HttpRequest
from ...settings import Settings
from .messages import (
    ClientLeft,
    Head,
    Receive,
    Scope,
    Send,
    answer,
    error_answer,
    read_body,
    receive_all,
    wrap,
)


class CustomRoutes:
    """Stands where the application would say that there is no such route."""

    def __init__(self, dataplane: DataPlane, settings: Settings, otherwise: ASGIApp) -> None:
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
        self._profile = settings.status_profile
        self._otherwise = otherwise
        self._known: Iterable[Any] = ()
        self._routes: list[tuple[str, Any, Execution]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        execution = self._find(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if execution is None:
            await self._otherwise(scope, receive, send)
            return
        try:
            body = await read_body(Head(scope["headers"]), partial(receive_all, receive), self._limit)
            request = HttpRequest(
                scope["method"], scope["path"], scope["query_string"], list(scope["headers"]), body
            )
            response = await execution.ask(request)
        except ClientLeft:
            return
        except Exception as error:
            status, headers, answered = error_answer(wrap(error), self._profile)
            await answer(send, status, answered, headers)
        else:
            await answer(send, response.status, response.body, response.headers)

    def _find(self, method: str, path: str) -> Execution | None:
        routes = self._dataplane.custom_routes()
        if routes is not self._known:
            self._known = routes
            self._routes = [
                (handler.rest_method, compile_path(handler.rest_path)[0], execution)
                for handler, execution in routes
            ]
        for wanted, pattern, execution in self._routes:
            if wanted == method and pattern.match(path):
                return execution
        return None
