"""Custom routes of models, served by FastAPI in the process that runs the model."""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ModelLoadFailed
from ..handlers import HttpRequest, HttpResponse, RouteHandler, get_custom_handlers

if TYPE_CHECKING:
    from fastapi import FastAPI


async def build_route_handler(model: object) -> RouteHandler | None:
    """The handler of the model's custom routes, or None. Raises ModelLoadFailed if FastAPI refuses one."""
    handlers = get_custom_handlers(model)
    if not handlers:
        return None
    # A body without a content type is JSON, as in MLServer; older versions of FastAPI never ask for one.
    app = await asyncio.to_thread(bare_application, strict_content_type=False)
    for handler, method in handlers:
        try:
            app.add_api_route(handler.rest_path, _routable(method), methods=[handler.rest_method])
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).partition('.')[0].strip()}"
            name = getattr(model, "name", type(model).__name__)
            raise ModelLoadFailed(
                f"Model {name} did not load: route {handler.rest_path} is refused: {reason}"
            ) from error

    async def handle(request: HttpRequest) -> HttpResponse:
        status = 500
        headers: list[tuple[bytes, bytes]] = []
        body = bytearray()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], [*message.get("headers", ())]
            else:
                body.extend(message.get("body", b""))

        await app(_scope(request), receive, send)
        return HttpResponse(status, [pair for pair in headers if pair[0] != b"content-length"], bytes(body))

    return handle


def _routable(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with `list[Any]` in place of `list`, which FastAPI takes for uploaded files."""
    try:
        signature = inspect.signature(method, eval_str=True)
    except NameError:
        return method  # FastAPI has more ways to read an annotation
    bare = {name: kind for name, kind in signature.parameters.items() if kind.annotation in _OF_ANYTHING}
    if not bare:
        return method
    parameters = [
        each.replace(annotation=_OF_ANYTHING[each.annotation]) if name in bare else each
        for name, each in signature.parameters.items()
    ]
    routed = partial(method)
    routed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return routed


_OF_ANYTHING = {list: list[Any], tuple: tuple[Any, ...], set: set[Any]}


_SILENT: dict[str, Any] = {
    "telemetry": {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
}
"""Spans and meters are the server's own. Older versions of FastAPI make none and ignore the option."""


def bare_application(**options: Any) -> "FastAPI":
    """A FastAPI application without documentation, redirects and telemetry of its own."""
    from fastapi import FastAPI  # late: few models have custom routes

    return FastAPI(
        docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, **_SILENT, **options
    )


def _scope(request: HttpRequest) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode(),
        "root_path": "",
        "query_string": request.query,
        "headers": request.headers,
    }
