"""The REST application: inference routes first, then what is asked all the time, everything else by FastAPI."""

import asyncio
import logging
from time import perf_counter
from typing import Any

from ...dataplane.dataplane import DataPlane
from ...settings import Settings
from ...telemetry.metrics import Meters
from .exchange import SCOPE_KEY, AsgiExchange, Exchange
from .inference import InferenceDoor
from .lazy import LazyApp
from .messages import Receive, Scope, Send, respond
from .metadata import MetadataRoutes
from .routes import Route, route_of
from .websocket import WebSocketDoor

logger = logging.getLogger("inferstream.rest")


class RestApp:
    """Every route of HTTP as an ASGI application; `infer` alone serves an inference, whichever way it came."""

    def __init__(self, dataplane: DataPlane, settings: Settings, meters: Meters) -> None:
        self.websocket = WebSocketDoor(dataplane, settings, meters)
        self._inference = InferenceDoor(dataplane, settings)
        self._metadata = MetadataRoutes(dataplane, settings, meters)
        self._resources = LazyApp(lambda: _build_resources(dataplane, settings))
        self._meters = meters.rest
        self.entry: Any = self
        """The application to serve: this one, or what stands in front of it."""
        if settings.cors_settings is not None:
            from starlette.middleware.cors import CORSMiddleware  # late, as FastAPI is

            self.entry = CORSMiddleware(self, **settings.cors_settings.model_dump())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = route_of(scope["path"])
        if route is None:
            if logger.isEnabledFor(logging.DEBUG) and not scope["path"].startswith(UNLOGGED):
                send = _logged(scope, send)
            if (metadata_route := self._metadata.find(scope["path"])) is not None:
                await self._metadata.respond(metadata_route, scope, send)
            else:
                await self._resources(scope, receive, send)
        elif scope["method"] != "POST":
            await respond(send, 405, b'{"error":"Method Not Allowed"}', [*_NOT_ALLOWED])
        else:
            # Naming the loop spares Python 3.11 the system call with which it would look for it.
            connection = scope.get(SCOPE_KEY)
            task = asyncio.current_task(None if connection is None else connection.loop)
            assert task is not None
            async with AsgiExchange(scope, receive, send, task) as exchange:
                await self.infer(exchange, route)

    async def infer(self, exchange: Exchange, route: Route) -> int:
        """Serve one inference request; returns the status it was answered with."""
        started = perf_counter()
        self._meters.in_progress += 1
        status = 499
        try:
            status = await self._inference.serve(exchange, route)
            return status
        except asyncio.CancelledError:
            # Ours when the client has left: there is nobody to tell, and nothing went wrong.
            if not exchange.left:
                raise
            return status
        finally:
            self._meters.in_progress -= 1
            self._meters.ended("POST", route.template, str(status), perf_counter() - started)
            if logger.isEnabledFor(logging.DEBUG):
                seconds = perf_counter() - started
                logger.debug("POST %s of %s %d, %.6f s", route.template, route.model, status, seconds)


def _build_resources(dataplane: DataPlane, settings: Settings) -> Any:
    # Late: importing FastAPI is a third of a start and a sixth of the memory, and most servers are never asked.
    from .resources import build_resources

    return build_resources(dataplane, settings)


UNLOGGED = ("/v2/health/", "/metrics")
"""Paths that are asked for all the time, by nobody who reads logs."""


def _logged(scope: Scope, send: Send) -> Send:
    """`send`, with a line in the log for the answer."""

    async def logged(message: Any) -> None:
        if message["type"] == "http.response.start":
            logger.debug("%s %s %d", scope["method"], scope["path"], message["status"])
        await send(message)

    return logged


_NOT_ALLOWED = ((b"content-type", b"application/json"), (b"allow", b"POST"))
