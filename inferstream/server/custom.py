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
from ..types.json_encoding import to_jsonable
from .connections import strip_slashes

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.routing import APIRoute

logger = logging.getLogger("inferstream.server")


async def build_route_handler(model: object) -> RouteHandler | None:
    """Build the handler of the model's custom routes.

    Returns None if the model has none. Raises ModelLoadFailed if FastAPI rejects a route.
    """
    handlers = get_custom_handlers(model)
    if not handlers:
        return None
    # A body without a content type is JSON, as in MLServer. Older FastAPI versions always do this.
    app = await asyncio.to_thread(bare_application, strict_content_type=False)
    app.add_exception_handler(Exception, _propagate)
    app.router.route_class = _stream_route()
    for handler, method in handlers:
        try:
            routed = _wrap_results(_generalize_annotations(method))
            app.add_api_route(strip_slashes(handler.rest_path), routed, methods=methods(handler))
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
    """Re-raise the error of a route, which Starlette would otherwise turn into a response."""
    raise error


def methods(handler: CustomHandler) -> list[str]:
    """Return the HTTP methods that a route serves. GET includes HEAD (RFC 9110, section 9.3.2)."""
    return [handler.rest_method, "HEAD"] if handler.rest_method == "GET" else [handler.rest_method]


STREAM = "inferstream.stream"
"""The ASGI scope key of a streaming response's iterator."""


def _stream_route() -> "type[APIRoute]":
    """Create a FastAPI route class that stores the iterator of a streaming response in the scope."""
    from fastapi.routing import APIRoute  # Imported lazily, like FastAPI.

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
"""Bytes of a response that a route may send before the client reads them."""

GRACE_SECONDS = 2.0
"""Seconds that a route waiting for `http.disconnect` has to return before it is cancelled."""


class _Exchange:
    """One request to an ASGI application and its response.

    It is also `HttpResponse.rest`: the part of the body that the application has not sent yet.
    """

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
            finally:  # Starlette leaves an unfinished iterator to the garbage collector
                if (close := getattr(scope.get(STREAM), "aclose", None)) is not None:
                    await close()
        except BaseException as error:  # a task that raises SystemExit stops the event loop
            self._error = error

    async def respond(self) -> HttpResponse:
        """Wait until the response starts, and return it.

        It includes the whole body if the application sent it at once. Background tasks of the route continue,
        and their errors are logged. Raises the error that the application raised before its response was
        complete.
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
        if self._listens:  # the route handles the disconnect itself
            self._running.get_loop().call_later(GRACE_SECONDS, self._running.cancel)
        else:
            self._running.cancel()

    def _end(self, task: asyncio.Task[None]) -> None:
        if self._error is not None and self._is_whole:
            logger.error("background task of a custom route failed", exc_info=self._error)
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
            raise OSError("the client has left")  # required by ASGI 2.4
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


def _generalize_annotations(method: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a bare `list`, `tuple` or `set` in annotations with its generic form, such as `list[Any]`.

    FastAPI treats the bare types as uploaded files.
    """
    try:
        signature = inspect.signature(method, eval_str=True)
    except NameError:
        return method  # FastAPI has other ways to resolve annotations
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


def _wrap_results(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method so that FastAPI can also serialize NumPy and pandas results."""
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        return method
    if not inspect.iscoroutinefunction(method):
        return wraps(method)(lambda *arguments, **named: _to_plain_values(method(*arguments, **named)))

    @wraps(method)
    async def answer(*arguments: Any, **named: Any) -> Any:
        return _to_plain_values(await method(*arguments, **named))

    return answer


def _to_plain_values(value: Any) -> Any:
    if type(value) is dict:
        return {key: _to_plain_values(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return [*map(_to_plain_values, value)]
    return to_jsonable(value) if type(value).__module__.partition(".")[0] in ("numpy", "pandas") else value


_OF_ANYTHING = {list: list[Any], tuple: tuple[Any, ...], set: set[Any]}


_SILENT: dict[str, Any] = {
    "telemetry": {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
}
"""Disables FastAPI's telemetry, because the server records its own. Older versions ignore the option."""


def bare_application(**options: Any) -> "FastAPI":
    """Create a FastAPI application without documentation pages, redirects or telemetry."""
    from fastapi import FastAPI  # Imported lazily: few models have custom routes.

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
