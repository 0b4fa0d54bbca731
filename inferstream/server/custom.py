"""Custom routes of models, served by FastAPI in the process that runs the model."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, MutableMapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from ..concurrency.tasks import Tasks
from ..errors import ModelLoadFailed
from ..handlers import CustomHandler, HttpRequest, HttpResponse, RouteHandler, get_custom_handlers
from ..types.json_encoding import jsonable
from .connections import without_slash

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.routing import APIRoute

logger = logging.getLogger("inferstream.server")


async def build_route_handler(model: object) -> RouteHandler | None:
    """The handler of the model's custom routes, or None. Raises ModelLoadFailed if FastAPI refuses one."""
    handlers = get_custom_handlers(model)
    if not handlers:
        return None
    # A body without a content type is JSON, as in MLServer; older versions of FastAPI never ask for one.
    app = await asyncio.to_thread(bare_application, strict_content_type=False)
    app.add_exception_handler(Exception, _propagate)
    app.router.route_class = _stream_route()
    for handler, method in handlers:
        try:
            routed = _readable(_routable(method))
            app.add_api_route(without_slash(handler.rest_path), routed, methods=methods(handler))
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).partition('.')[0].strip()}"
            name = getattr(model, "name", type(model).__name__)
            raise ModelLoadFailed(
                f"Model {name} did not load: route {handler.rest_path} is refused: {reason}"
            ) from error

    background = Tasks()

    async def handle(request: HttpRequest) -> HttpResponse:
        return await _Exchange(request, app, background).respond()

    return handle


async def _propagate(request: object, error: Exception) -> Any:
    """Let the error of a route through, which Starlette would answer first."""
    raise error


def methods(handler: CustomHandler) -> list[str]:
    """The methods that a route serves: one for GET serves HEAD (RFC 9110 section 9.3.2)."""
    return [handler.rest_method, "HEAD"] if handler.rest_method == "GET" else [handler.rest_method]


STREAM = "inferstream.stream"
"""The key of the iterator of a streaming response in a scope."""


def _stream_route() -> "type[APIRoute]":
    """FastAPI's class of routes, with the iterator of each streaming response in the scope of its request."""
    from fastapi.routing import APIRoute  # late, as FastAPI is

    class StreamRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Any], Coroutine[Any, Any, Any]]:
            handle = super().get_route_handler()

            async def handle_noting(request: Any) -> Any:
                response = await handle(request)
                request.scope[STREAM] = getattr(response, "body_iterator", None)
                return response

            return handle_noting

    return StreamRoute


AHEAD = 64 * 1024
"""Bytes of a response that a route may send ahead of its client."""

GRACE_SECONDS = 2.0
"""How long a route that waits for a disconnect may take to end after it, until it is cancelled."""


class _Exchange:
    """One request to an ASGI application, and its response; the body of it that the application still sends."""

    def __init__(self, request: HttpRequest, app: "FastAPI", background: Tasks) -> None:
        self._is_head = request.method == "HEAD"
        self._body: bytes | None = request.body
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._unread = bytearray()
        self._error: BaseException | None = None
        self._is_whole = self._left = self._listens = False
        self._changed, self._has_room, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._running = background.start(self._serve(app, _scope(request)))
        self._running.add_done_callback(self._end)

    async def _serve(self, app: "FastAPI", scope: dict[str, Any]) -> None:
        try:
            try:
                await app(scope, self._receive, self._send)
            finally:  # Starlette leaves an iterator that it has not finished to the garbage collector
                if (close := getattr(scope.get(STREAM), "aclose", None)) is not None:
                    await close()
        except BaseException as error:  # a task that raises SystemExit ends the event loop
            self._error = error

    async def respond(self) -> HttpResponse:
        """The response, as soon as it has begun, whole if the application has sent it at once.

        Background tasks run on; their errors are logged. Raises what the application raises before.
        """
        try:
            await self._changed.wait()
        except asyncio.CancelledError:
            self._leave()
            raise
        if self._error is not None and not self._is_whole:
            raise self._error
        headers, rest = self._headers, None if self._is_whole else self
        if self._is_whole and not self._is_head:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        return HttpResponse(self._status, headers, self._take(), rest)

    async def read(self) -> bytes:
        while not (self._unread or self._is_whole):
            if self._running.done():
                raise self._error or RuntimeError("the route returned before the end of its response")
            self._changed.clear()
            await self._changed.wait()
        return self._take()

    async def aclose(self) -> None:
        if not self._is_whole:
            self._leave()
            await asyncio.wait([self._running], timeout=GRACE_SECONDS)

    def _take(self) -> bytes:
        piece = bytes(self._unread)
        self._unread.clear()
        self._has_room.set()
        return piece

    def _leave(self) -> None:
        self._left = True
        self._over.set()
        self._has_room.set()
        if self._listens:  # it ends in its own way
            self._running.get_loop().call_later(GRACE_SECONDS, self._running.cancel)
        else:
            self._running.cancel()

    def _end(self, task: asyncio.Task[None]) -> None:
        if self._error is not None and self._is_whole:
            logger.error("a background task of a custom route failed", exc_info=self._error)
        self._changed.set()

    async def _receive(self) -> dict[str, Any]:
        if (body := self._body) is not None:
            self._body = None
            return {"type": "http.request", "body": body, "more_body": False}
        self._listens = True
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if self._left:
            raise OSError("the client has left")  # as ASGI 2.4 demands
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], [*message.get("headers", ())]
        else:
            self._unread += message.get("body", b"")
            if not message.get("more_body", False):
                self._is_whole = True
                self._over.set()
        self._changed.set()
        if len(self._unread) >= AHEAD and not self._is_whole:
            self._has_room.clear()
            await self._has_room.wait()


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


def _readable(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with results that FastAPI can write, also those of NumPy and pandas."""
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        return method
    if not inspect.iscoroutinefunction(method):
        return wraps(method)(lambda *arguments, **named: _plain(method(*arguments, **named)))

    @wraps(method)
    async def answer(*arguments: Any, **named: Any) -> Any:
        return _plain(await method(*arguments, **named))

    return answer


def _plain(value: Any) -> Any:
    if type(value) is dict:
        return {key: _plain(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return [*map(_plain, value)]
    return jsonable(value) if type(value).__module__.partition(".")[0] in ("numpy", "pandas") else value


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
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "client": request.client,
        "path": request.root_path + request.path,
        "raw_path": (request.root_path + request.path).encode(),
        "root_path": request.root_path,
        "query_string": request.query,
        "headers": request.headers,
    }
