"""uvicorn, run as a part of our process instead of as its owner."""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from typing import Any

import uvicorn

from .messages import Receive, Scope, Send, answer
from .sockets import WebSocket
from .transport import KEEP_ALIVE, Connection, close_overdue

LAST_WORDS = 2
"""Seconds that answers already made may take to reach their clients at shutdown."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield  # the lifecycle has the signals


class HttpServer:
    """One HTTP port with an ASGI application behind it."""

    def __init__(self, app: Any, *, guarded: bool) -> None:
        config = uvicorn.Config(
            app,
            loop="none",
            http=Connection if guarded else "httptools",
            ws=WebSocket if guarded else "none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=LAST_WORDS,
            backlog=2048,
        )
        config.load()
        # uvicorn would wrap the application for proxy headers that nothing here reads.
        config.loaded_app = app.entry if guarded else app
        self._server = _Server(config)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket until `stop`."""
        self._tasks.append(asyncio.create_task(self._server.serve(sockets=[sock])))

    def watch(self, header_timeout: float, body_timeout: float) -> None:
        """Close connections whose request does not arrive within these seconds."""
        connections = self._server.server_state.connections
        self._tasks.append(asyncio.create_task(close_overdue(connections, header_timeout, body_timeout)))

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
            await answer(send, 200, meters.exposition(), [(b"content-type", content_type.encode())])
        else:
            await answer(send, 404, b'{"error":"Not Found"}', [(b"content-type", b"application/json")])

    return app
