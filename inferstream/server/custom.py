"""Custom routes of models, served by FastAPI in the process that runs the model."""

import asyncio
import inspect
import logging
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..concurrency.tasks import Tasks
from ..errors import ModelLoadFailed
from ..handlers import HttpRequest, HttpResponse, RouteHandler, get_custom_handlers

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger("inferstream.server")


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

    background = Tasks()

    async def handle(request: HttpRequest) -> HttpResponse:
        return await _Exchange(request).run(app, background)

    return handle


class _Exchange:
    """One request to an ASGI application, and its whole response."""

    def __init__(self, request: HttpRequest) -> None:
        self._scope = _scope(request)
        self._requests = [{"type": "http.request", "body": request.body, "more_body": False}]
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._responded = asyncio.Event()

    async def run(self, app: "FastAPI", background: Tasks) -> HttpResponse:
        """The response, as soon as it is whole. The application may run on in the `background`.

        Raises what the application raises before the end of its response.
        """
        running = background.start(app(self._scope, self._receive, self._send))
        running.add_done_callback(lambda _: self._responded.set())
        try:
            await self._responded.wait()
        except asyncio.CancelledError:
            running.cancel()
            raise
        if running.done():
            running.result()
        else:
            running.add_done_callback(_log_failure)
        headers = [pair for pair in self._headers if pair[0] != b"content-length"]
        return HttpResponse(self._status, headers, bytes(self._body))

    async def _receive(self) -> dict[str, Any]:
        if self._requests:
            return self._requests.pop()
        await self._responded.wait()  # the client of a whole response stays until it has it
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], [*message.get("headers", ())]
        else:
            self._body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                self._responded.set()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a background task of a custom route failed", exc_info=error)


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
