"""The complete ASGI application, with lifespan, HTTP and WebSocket, standalone or mounted under a prefix."""

from typing import Protocol

from ...errors import NotStarted
from ..connections import relative_path, strip_slashes
from .app import RestApp
from .asgi_socket import AsgiSocket
from .messages import PREFIX, Receive, Scope, Send, error_response, respond, wrap


class Lifecycle(Protocol):
    """The server that an ASGI lifespan starts and stops."""

    @property
    def started(self) -> bool:
        """Whether each model has loaded or failed."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class AsgiApp:
    """The ASGI application for any server. Its lifespan starts and stops `lifecycle`."""

    def __init__(self, rest: RestApp, lifecycle: Lifecycle) -> None:
        self._rest = rest
        self._lifecycle = lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._run_lifespan(receive, send)
        elif kind == "http":
            if self._lifecycle.started:
                await self._rest.entry(_strip_prefix(scope), receive, send)
            else:
                status, headers, body = error_response(NotStarted(), "default")
                await respond(send, status, body, headers)
        elif kind == "websocket":
            socket = AsgiSocket(self._rest.websocket, _strip_prefix(scope), receive, send)
            await socket.run(None if self._lifecycle.started else NotStarted())
        else:
            raise ValueError(f"an ASGI scope of the type {kind!r} is not known here")

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
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


def _strip_prefix(scope: Scope) -> Scope:
    """Return the scope without the `root_path` prefix and without a trailing slash in its path.

    With Starlette 0.33 or later and with uvicorn, `path` starts with the prefix. Behind a proxy that strips
    the prefix, it does not.
    """
    prefix = scope.get("root_path", "").rstrip("/")
    path = strip_slashes(scope["path"])
    if not prefix:
        return scope if path == scope["path"] else {**scope, "path": path}
    # The mount path of Starlette, below a prefix that the proxy strips.
    mounted = prefix.removeprefix(scope.get("app_root_path", ""))
    path = relative_path(prefix, path) or relative_path(mounted, path) or path
    return {**scope, "path": path, "root_path": "", PREFIX: prefix}
