"""The REST application: inference routes first, everything else by FastAPI."""

import asyncio
import logging
from time import perf_counter
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from ...dataplane.dataplane import DataPlane
from ...settings import Settings
from ...telemetry.metrics import Meters
from .inference import InferenceDoor
from .messages import Receive, Scope, Send, answer
from .resources import build_resources
from .transport import SCOPE_KEY, Limits
from .websocket import WebSocketDoor

logger = logging.getLogger("inferstream.rest")

MODELS = "/v2/models/"
VERSIONS = "/versions/"


class RestApp(Limits):
    """One ASGI application for everything that is HTTP on the main port."""

    def __init__(self, dataplane: DataPlane, settings: Settings, meters: Meters) -> None:
        self.max_connections = settings.max_connections
        self.websocket = WebSocketDoor(dataplane, settings, meters)
        self._inference = InferenceDoor(dataplane, settings)
        self._actions = self._inference.actions
        self._resources = build_resources(dataplane, settings, meters)
        self._models = MODELS
        self._meters = meters.rest
        self._debug = settings.debug

        self.entry: Any = self
        """The application to serve: this one, or what stands in front of it."""
        if settings.cors_settings is not None:
            self.entry = CORSMiddleware(self, **settings.cors_settings.model_dump())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        target, _, action = path.rpartition("/")
        if action not in self._actions or not target.startswith(self._models):
            await self._resources(scope, receive, send)
            return
        if scope["method"] != "POST":
            await answer(send, 405, b'{"error":"Method Not Allowed"}', [*_NOT_ALLOWED])
            return
        name, versioned, version = target[len(self._models) :].rpartition(VERSIONS)
        if not versioned:
            name, version = version, ""
        started = perf_counter()
        self._meters.in_progress += 1
        status = 499
        exchange = scope.get(SCOPE_KEY)
        connection = None if exchange is None else exchange.connection
        if connection is not None:
            # Naming the loop spares Python 3.11 the system call with which it would look for it.
            connection.task = asyncio.current_task(connection.loop)
        try:
            status = await self._inference(scope, receive, send, action, name, version or None)
        except asyncio.CancelledError:
            # Ours when the client has left: there is nobody to tell, and nothing went wrong.
            if connection is None or not connection.lost:
                raise
        finally:
            if connection is not None:
                connection.task = None
            self._meters.in_progress -= 1
            template = _VERSIONED[action] if versioned else _PLAIN[action]
            self._meters.ended("POST", template, str(status), perf_counter() - started)
            if self._debug:
                logger.debug("POST %s %s", path, status)


_NOT_ALLOWED = ((b"content-type", b"application/json"), (b"allow", b"POST"))
_ACTIONS = ("infer", "generate", "infer_stream", "generate_stream")
_PLAIN = {action: f"{MODELS}{{model_name}}/{action}" for action in _ACTIONS}
_VERSIONED = {action: f"{MODELS}{{model_name}}{VERSIONS}{{model_version}}/{action}" for action in _ACTIONS}
