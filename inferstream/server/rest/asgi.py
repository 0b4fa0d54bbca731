"""The complete ASGI application: lifespan, HTTP and WebSocket, alone under any server or mounted under a prefix."""

from typing import TYPE_CHECKING, Protocol

from ...dataplane.dataplane import DataPlane
from ...errors import NotStarted
from ...settings import Settings
from ...telemetry.metrics import Meters
from .app import RestApp
from .asgi_socket import AsgiSocket
from .messages import PREFIX, Receive, Scope, Send, error_response, respond, wrap

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer


class Lifecycle(Protocol):
    """What starts and stops with the ASGI application."""

    @property
    def started(self) -> bool:
        """Whether the models have been loaded, as far as they can be."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class AsgiApp:
    """`rest` for any ASGI server; a `lifespan` starts and stops `lifecycle`."""

    def __init__(self, rest: RestApp, lifecycle: Lifecycle) -> None:
        self._rest = rest
        self._lifecycle = lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
        elif kind == "http":
            if self._lifecycle.started:
                await self._rest.entry(_below_prefix(scope), receive, send)
            else:
                status, headers, body = error_response(NotStarted(), "default")
                await respond(send, status, body, headers)
        elif kind == "websocket":
            socket = AsgiSocket(self._rest.websocket, _below_prefix(scope), receive, send)
            await socket.run(None if self._lifecycle.started else NotStarted())
        else:
            raise ValueError(f"an ASGI scope of the type {kind!r} is not known here")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._lifecycle.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": wrap(error).message})
            return
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        finally:
            await self._lifecycle.stop()
        await send({"type": "lifespan.shutdown.complete"})


def _below_prefix(scope: Scope) -> Scope:
    """The scope as one without a prefix.

    `root_path` is the prefix, and `path` begins with it under Starlette from 0.33 on and under uvicorn. A
    server behind a proxy that strips the prefix gives the rest alone.
    """
    prefix = scope.get("root_path", "").rstrip("/")
    if not prefix:
        return scope
    path = scope["path"]
    if path == prefix or path.startswith(f"{prefix}/"):
        path = path[len(prefix) :] or "/"
    return {**scope, "path": path, "root_path": "", PREFIX: prefix}


def build_rest_app(
    dataplane: DataPlane, settings: Settings, meters: Meters, tracing: "Tracer | None"
) -> RestApp:
    """The REST application, with spans where the settings ask for them."""
    if tracing is None:
        return RestApp(dataplane, settings, meters)
    from .tracing import TracedRestApp  # late: it imports OpenTelemetry

    return TracedRestApp(tracing, dataplane, settings, meters)
