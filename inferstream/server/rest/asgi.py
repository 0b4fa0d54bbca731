"""The complete ASGI application, with lifespan, HTTP and WebSocket, alone or mounted under a prefix."""

from typing import Protocol

from ...errors import NotStarted
from ..connections import below, without_slash
from .app import RestApp
from .asgi_socket import AsgiSocket
from .messages import PREFIX, Receive, Scope, Send, error_response, respond, wrap


class Lifecycle(Protocol):
    """The application that an ASGI lifespan starts and stops."""

    @property
    def started(self) -> bool:
        """Whether each model has loaded or failed."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class AsgiApp:
    """`rest` for any ASGI server; the lifespan starts and stops `lifecycle`."""

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
    """The scope without its prefix, which `root_path` holds, and without a slash at the end of its path.

    Under Starlette from 0.33 on and under uvicorn `path` begins with the prefix. Behind a proxy that strips the
    prefix it does not.
    """
    prefix = scope.get("root_path", "").rstrip("/")
    path = without_slash(scope["path"])
    if not prefix:
        return scope if path == scope["path"] else {**scope, "path": path}
    mounted = prefix.removeprefix(
        scope.get("app_root_path", "")
    )  # Starlette's, below a prefix that is stripped
    path = below(prefix, path) or below(mounted, path) or path
    return {**scope, "path": path, "root_path": "", PREFIX: prefix}
