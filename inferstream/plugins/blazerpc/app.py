"""`BlazeApp`: an app with the decorator, service and messages of BlazeRPC."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from inferstream import App

from .grpclib import map_installed_error
from .registry import SERVICE, ModelRegistry

GRPC_PORT = 50051
HTTP_PORT = 8080
ANY_PORT = 0


class BlazeApp(App):
    """An app whose functions are models. Serve it with `server start module:app` or `await app.serve()`.

    If all arrays of a model have "batch" as their first dimension, requests are batched: up to
    `max_batch_size`, after at most `batch_timeout_ms`. Objects in `middleware` implement `on_request` and
    `on_response`.
    """

    def __init__(
        self,
        name: str = "blazerpc",
        enable_batching: bool = True,
        max_batch_size: int = 32,
        batch_timeout_ms: float = 10.0,
        middleware: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(name, service=SERVICE, classic=True)
        self.remember_module(sys._getframe(1))
        map_installed_error(self)
        self.enable_batching = enable_batching
        self.max_batch_size = max_batch_size
        self.batch_timeout_ms = batch_timeout_ms
        self.registry = ModelRegistry(self)
        if middleware:
            from .hooks import AroundCalls  # Imported lazily: clients that import an app do not run calls.

            self.middlewares.append(AroundCalls(self, middleware))

    def model(  # type: ignore[override]  # the BlazeRPC signature
        self, name: str, version: str = "1", streaming: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a function as the model `name` and return it unchanged.

        Raises ValidationError or InvalidSettings.
        """

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.registry.register(name, version, function, streaming, self._batching())
            return function

        return decorate

    async def serve(self, host: str = "127.0.0.1", port: int = GRPC_PORT) -> None:
        """Serve gRPC on this port and REST on any free port, until SIGINT or SIGTERM."""
        await self._serve(host, port, ANY_PORT)

    async def serve_jsonrpc(self, host: str = "127.0.0.1", port: int = HTTP_PORT) -> None:
        """Serve JSON-RPC and REST on this port and gRPC on any free port, until SIGINT or SIGTERM."""
        await self._serve(host, ANY_PORT, port)

    async def serve_both(
        self, host: str = "127.0.0.1", grpc_port: int = GRPC_PORT, http_port: int = HTTP_PORT
    ) -> None:
        """Serve gRPC, JSON-RPC and REST until SIGINT or SIGTERM."""
        await self._serve(host, grpc_port, http_port)

    async def _serve(self, host: str, grpc_port: int, http_port: int) -> None:
        # Imported lazily: worker processes and clients import an app, but not the server.
        from inferstream.ext.hosting import build_server, resolve_served

        ports = {"grpc_port": grpc_port, "http_port": http_port, "metrics_port": http_port}
        server = build_server(*resolve_served(self, {"host": host, **ports}))
        await server.run_until_signal()

    def _batching(self) -> dict[str, Any]:
        if not self.enable_batching or self.max_batch_size < 2 or self.batch_timeout_ms <= 0:
            return {}
        return {"max_batch_size": self.max_batch_size, "max_batch_time": self.batch_timeout_ms / 1000}
