"""The routes that FastAPI serves: the repository, the access log, `.proto` files, and custom routes of models."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import orjson
from fastapi import Depends, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from ...concurrency.scope import ClientLeft
from ...dataplane.access import Access
from ...dataplane.dataplane import DataPlane
from ...errors import InferstreamError, InvalidRequest, Overloaded
from ...protos.published import ProtoFile, published
from ...protos.sse import HEARTBEAT, event, named_event
from ...settings import Settings
from ...telemetry.access import AccessRecord, Subscribers
from ..custom import bare_application
from ..json_limits import json_limits
from ..status import http_headers, status_of
from .custom import CustomRoutes
from .messages import CALLER, PREFIX, Head, Receive, Scope, Send, error_document, read_body, receive_all, wrap
from .origins import Origins
from .query import TRUE_FALSE
from .routes import ACCESS, ACTIONS, INDEX, LOAD, PROTO, PROTOS, SOCKET, UNLOAD

SILENCE = 15.0
"""Seconds before a comment, which finds a client that has left."""

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

LOAD_PARAMETERS = "a load takes a name only: what a model is, its folder says"


class JSONResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


def _template(path: str) -> str:
    """A path in FastAPI's form. A name may hold slashes."""
    return path.replace("{name}", "{name:path}")


async def _check(access: Access, request: Request) -> None:
    """Ask for the operation of a route. Raises PermissionDenied; KeyError for a route that stands for none."""
    scope = request.scope
    path = scope["route"].path.replace(":path}", "}")
    access.check(ACTIONS[path], scope[CALLER], scope["path_params"].get("name"))


class NoResponse(Response):
    """For a client that has left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


def build_resources(dataplane: DataPlane, settings: Settings) -> FastAPI:
    """The FastAPI application of every route that no dialect claims."""
    app = bare_application(title=settings.server_name, version=settings.server_version)
    app.router.dependencies = [Depends(partial(_check, dataplane.access))]
    _add_repository(app, dataplane, settings)
    _add_access_log(app, dataplane, Origins(settings))
    _add_protos(app, dataplane, settings)

    @app.get(_template(SOCKET))
    @app.get(_template(SOCKET).replace("/stream", "/versions/{version}/stream"))
    async def stream(name: str, version: str | None = None) -> Response:
        return JSONResponse({"error": "This route opens a WebSocket."}, 426, {"upgrade": "websocket"})

    _handle_errors(app, settings)
    app.router.default = CustomRoutes(dataplane, settings, app.router.default)
    return app


def _add_repository(app: FastAPI, dataplane: DataPlane, settings: Settings) -> None:
    limits = json_limits(settings)

    async def document(request: Request) -> dict[str, Any]:
        """The optional JSON object of a repository call, of any content type."""
        fetch = partial(receive_all, request.receive)
        body = await read_body(Head(request.scope["headers"]), fetch, settings.max_body_bytes)
        if not body.strip():
            return {}
        limits.check(body)
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"The body is not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise InvalidRequest("The body must be a JSON object.")
        return value

    @app.post(INDEX)
    async def index(request: Request) -> Response:
        ready = (await document(request)).get("ready")
        if ready is not None and not isinstance(ready, bool):
            raise InvalidRequest('"ready" must be true or false')
        items = await dataplane.index(request.scope[CALLER], ready)
        return JSONResponse([item.model_dump(mode="json") for item in items])

    @app.post(_template(LOAD))
    async def load(name: str, request: Request) -> Response:
        if (await document(request)).get("parameters"):
            raise InvalidRequest(LOAD_PARAMETERS)
        await dataplane.load(name, request.scope[CALLER])
        return JSONResponse({"name": name, "load": True})

    @app.post(_template(UNLOAD))
    async def unload(name: str, request: Request) -> Response:
        await document(request)
        await dataplane.unload(name, request.scope[CALLER])
        return JSONResponse({"name": name, "unload": True})


def _add_access_log(app: FastAPI, dataplane: DataPlane, origins: Origins) -> None:
    """Add the route to `app`. It is open to the clients that the repository API is open to."""

    @app.get(ACCESS)
    async def access(request: Request) -> Response:
        origins.check_page(request.scope["headers"])
        model, errors = request.query_params.get("model"), _flag(request, "errors")
        subscribers = dataplane.subscribers()
        if subscribers.full:
            raise Overloaded("Too many clients follow the access log.")
        events = _events(subscribers, model, errors)
        return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


def _flag(request: Request, name: str) -> bool:
    """A truth value in the query, false by default. Raises InvalidRequest."""
    text = request.query_params.get(name, "false")
    if text.lower() not in TRUE_FALSE:
        raise InvalidRequest(f'argument "{name}" takes true or false, got {text[:100]!r}')
    return TRUE_FALSE[text.lower()]


async def _events(subscribers: Subscribers, model: str | None, errors: bool) -> AsyncIterator[bytes]:
    # The client subscribes in the first step: a generator that never begins has no `finally`.
    subscriber = subscribers.open(model, errors)
    try:
        yield HEARTBEAT
        while True:
            ended = subscriber.ended
            records, dropped = await subscriber.read(SILENCE)
            if dropped:
                yield named_event("dropped", orjson.dumps({"dropped": dropped}))
            yield b"".join(event(_json(record)) for record in records) or HEARTBEAT
            if ended:
                return
    finally:
        subscribers.close(subscriber)


def _json(record: AccessRecord) -> bytes:
    return orjson.dumps({"time": record.time, **record.fields()})


def _add_protos(app: FastAPI, dataplane: DataPlane, settings: Settings) -> None:
    """Add the routes. The files of typed RPCs follow the models that are loaded."""

    def files(request: Request) -> list[ProtoFile]:
        caller = request.scope[CALLER]
        return published(model for model in dataplane.typed_models() if caller.sees(model[0]))

    @app.get(PROTOS)
    async def index(request: Request) -> Response:
        prefix = str(request.scope.get(PREFIX, settings.root_path))
        listed = [
            {"name": file.name, "services": file.services, "path": f"{prefix}/proto/{file.name}"}
            for file in files(request)
        ]
        return Response(orjson.dumps(listed), media_type="application/json")

    @app.get(_template(PROTO))
    async def text(name: str, request: Request) -> Response:
        named = next((file for file in files(request) if file.name == name), None)
        if named is None:
            names = ", ".join(file.name for file in files(request))
            raise HTTPException(404, f'There is no file "{name}". The files are: {names}')
        return Response(named.text, media_type="text/plain; charset=utf-8")


def _handle_errors(app: FastAPI, settings: Settings) -> None:

    def respond(error: InferstreamError) -> Response:
        headers = {name.decode(): value.decode() for name, value in http_headers(error)}
        return JSONResponse(error_document(error), status_of(error, settings.status_profile).http, headers)

    async def ours(_: Request, error: Exception) -> Response:
        return respond(wrap(error))

    async def routing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": str(error.detail)}, error.status_code, dict(error.headers or {}))

    async def left(_: Request, __: Exception) -> Response:
        return NoResponse()

    app.add_exception_handler(InferstreamError, ours)
    app.add_exception_handler(ClientLeft, left)
    app.add_exception_handler(HTTPException, routing)
    app.add_exception_handler(Exception, ours)
