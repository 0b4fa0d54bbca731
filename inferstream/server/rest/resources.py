"""The routes that FastAPI serves: repository and custom routes of models."""

from functools import partial
from typing import Any

import orjson
from fastapi import Depends, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from ...concurrency.scope import ClientLeft
from ...dataplane.access import Access
from ...dataplane.dataplane import DataPlane
from ...errors import InferstreamError, InvalidRequest
from ...settings import Settings
from ..custom import bare_application
from ..json_limits import json_limits
from ..status import http_headers, status_of
from .access_log import add_access_log
from .custom import CustomRoutes
from .messages import CALLER, Head, Receive, Scope, Send, error_document, read_body, receive_all, wrap
from .origins import Origins
from .paths import ACTIONS, INDEX, LOAD, SOCKET, UNLOAD, template
from .proto_files import add_protos

LOAD_PARAMETERS = "a load takes a name only: what a model is, its folder says"


class JSONResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


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
    add_access_log(app, dataplane, Origins(settings))
    add_protos(app, dataplane, settings)

    @app.get(template(SOCKET))
    @app.get(template(SOCKET).replace("/stream", "/versions/{version}/stream"))
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

    @app.post(template(LOAD))
    async def load(name: str, request: Request) -> Response:
        if (await document(request)).get("parameters"):
            raise InvalidRequest(LOAD_PARAMETERS)
        await dataplane.load(name, request.scope[CALLER])
        return JSONResponse({"name": name, "load": True})

    @app.post(template(UNLOAD))
    async def unload(name: str, request: Request) -> Response:
        await document(request)
        await dataplane.unload(name, request.scope[CALLER])
        return JSONResponse({"name": name, "unload": True})


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
