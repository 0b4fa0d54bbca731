"""HTTP ports, served by uvicorn as a part of the process."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator
from functools import partial
from typing import Any, Literal

import uvicorn

from ...settings import Settings
from ...telemetry.metrics import CONTENT_TYPE, Meters
from ..options import uvicorn_options
from ..tls import certificates
from .liveness import Listener, Liveness
from .messages import JSON, Receive, Scope, Send, respond
from .sockets import WebSocket
from .transport import KEEP_ALIVE, Connection, close_overdue

logger = logging.getLogger("inferstream.rest")

LAST_WORDS = 2
"""Seconds that finished responses may take to reach their clients at shutdown."""

HANDSHAKE = 10.0
"""Seconds a client may take for its TLS handshake, during which no other limit counts its connection."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, liveness: Liveness | None) -> None:
        super().__init__(config)
        self._liveness = liveness

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield  # the server's lifecycle handles signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, with time limits for TLS."""
        assert sockets is not None
        config = self.config
        connection: Any = config.http_protocol_class
        protocol = partial(connection, config=config, server_state=self.server_state, app_state={})
        limits: dict[str, Any] = {}
        if config.ssl is not None:
            limits = {"ssl_handshake_timeout": HANDSHAKE, "ssl_shutdown_timeout": float(LAST_WORDS)}
        serving = asyncio.get_running_loop().create_server
        self.servers = [
            await serving(protocol, sock=sock, ssl=config.ssl, backlog=config.backlog, **limits)
            for sock in sockets
        ]
        if self._liveness is not None and config.ssl is None:
            for sock in sockets:
                self._liveness.open(Listener(sock, protocol, config))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._liveness is not None:
            self._liveness.close()
        await super().shutdown(sockets)


class HttpServer:
    """One HTTP port with an ASGI application behind it.

    The settings of the port `name` pass options on to uvicorn and name certificates. Only clients of "rest" have
    limits. `liveness` answers probes while a model's `load` blocks the event loop. Raises InvalidSettings.
    """

    def __init__(
        self,
        app: Any,
        settings: Settings,
        name: Literal["rest", "metrics"],
        liveness: Liveness | None = None,
    ) -> None:
        guarded = name == "rest"
        source = f"_custom_{name}_server_settings"
        custom: dict[str, Any] | None = getattr(settings, source[1:])
        self._certificates = certificates(custom or {}, settings.model_repository_root, source)
        options = {
            "backlog": 2048,
            "server_header": False,
            "timeout_keep_alive": KEEP_ALIVE,
            **uvicorn_options(custom, source),
        }
        config = uvicorn.Config(
            app,
            loop="none",
            http=Connection if guarded else "httptools",
            ws=WebSocket if guarded else "none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=LAST_WORDS,
            **options,
        )
        config.load()
        if self._certificates is not None:
            config.ssl = self._certificates.context
        # uvicorn wraps the application for proxy headers, which are not used here.
        config.loaded_app = app.entry if guarded else app
        self._timeouts = (settings.header_timeout, settings.body_timeout) if guarded else None
        self._server = _Server(config, liveness)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def scheme(self) -> str:
        return "http://" if self._certificates is None else "https://"

    def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket until `stop`."""
        self._tasks.append(asyncio.create_task(self._server.serve(sockets=[sock])))
        if self._certificates is not None:
            self._tasks.append(asyncio.create_task(self._certificates.keep_renewed(logger)))
        if self._timeouts is not None:
            closing = close_overdue(self._server.server_state.connections, *self._timeouts)
            self._tasks.append(asyncio.create_task(closing))

    async def stop(self) -> None:
        """Stop accepting, let responses that are being written finish, and close."""
        self._server.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def metrics_app(endpoint: str, meters: Meters) -> Any:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == endpoint and scope["method"] == "GET":
            await respond(send, 200, await meters.scrape(), [(b"content-type", CONTENT_TYPE.encode())])
        else:
            await respond(send, 404, b'{"error":"Not Found"}', [JSON])

    return app
