"""uvicorn, run as a part of our process instead of as its owner."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

import uvicorn

from ...errors import InvalidSettings
from ..options import uvicorn_options
from ..tls import Certificates, certificates
from .liveness import Listener, Liveness
from .messages import Receive, Scope, Send, respond
from .sockets import WebSocket
from .transport import KEEP_ALIVE, Connection, close_overdue

logger = logging.getLogger("inferstream.rest")

LAST_WORDS = 2
"""Seconds that answers already made may take to reach their clients at shutdown."""

HANDSHAKE = 10.0
"""Seconds a client may take for its TLS handshake; connections in it are counted nowhere yet."""

LOOK_EVERY = 1.0
"""Seconds between looks at whether the certificate has changed."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, liveness: Liveness | None) -> None:
        super().__init__(config)
        self._liveness = liveness

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield  # the lifecycle has the signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's own, which sets no limits to TLS."""
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

    `custom` are the options that the setting `source` passes on; files they name are looked for in `folder`.
    `guarded` ports are those of inferences, with limits on what clients may do. `liveness` answers there
    while a model's `load` holds the event loop.
    Raises InvalidSettings when one is wrong.
    """

    def __init__(
        self,
        app: Any,
        source: str,
        custom: dict[str, Any] | None,
        folder: str,
        *,
        guarded: bool,
        liveness: Liveness | None = None,
    ) -> None:
        self._certificates = certificates(custom or {}, folder, source)
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
        # uvicorn would wrap the application for proxy headers that nothing here reads.
        config.loaded_app = app.entry if guarded else app
        self._server = _Server(config, liveness)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def scheme(self) -> str:
        """What the port's address begins with."""
        return "http://" if self._certificates is None else "https://"

    def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket until `stop`."""
        self._tasks.append(asyncio.create_task(self._server.serve(sockets=[sock])))
        if self._certificates is not None:
            self._tasks.append(asyncio.create_task(self._renew(self._certificates)))

    def watch(self, header_timeout: float, body_timeout: float) -> None:
        """Close connections whose request does not arrive within these seconds."""
        connections = self._server.server_state.connections
        self._tasks.append(asyncio.create_task(close_overdue(connections, header_timeout, body_timeout)))

    async def _renew(self, certificates: Certificates) -> None:
        """Serve connections that come after a certificate has changed with the new one."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                if await asyncio.to_thread(certificates.changed):
                    certificates.renew()
                    logger.info("the certificate has changed; new connections get the new one")
            except (InvalidSettings, OSError) as error:
                logger.error("the certificate has changed and cannot be used: %s", error)

    async def stop(self) -> None:
        """Stop accepting, let answers that are being written finish, and close."""
        self._server.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def metrics_app(endpoint: str, meters: Any, content_type: str) -> Any:
    """The application of the metrics port."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == endpoint and scope["method"] == "GET":
            await respond(send, 200, await meters.scrape(), [(b"content-type", content_type.encode())])
        else:
            await respond(send, 404, b'{"error":"Not Found"}', [(b"content-type", b"application/json")])

    return app
