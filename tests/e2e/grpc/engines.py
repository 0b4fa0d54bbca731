"""RPCs of the test's own in this process: over the gRPC port, and embedded in a server of grpcio."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import uvloop

from inferstream.server.grpc.grpcio.handlers import RpcHandlers
from inferstream.server.grpc.native.port import NativePort
from inferstream.server.grpc.options import channel_arguments
from inferstream.server.grpc.rpc import Rpcs
from inferstream.settings import Settings

ENGINES = ("grpcio", "native")

HOSTS = (*ENGINES, "native on uvloop")
"""The engines, and the event loop where it is not asyncio's own."""


class Embedding:
    """A server of grpcio that embeds RPCs, with the interface of our port."""

    def __init__(self, rpcs: Rpcs, arguments: dict[str, str | int]) -> None:
        self._server = grpc.aio.server(options=[*arguments.items()])
        self._server.add_generic_rpc_handlers((RpcHandlers(rpcs),))

    def bind(self, host: str, port: int) -> int:
        return self._server.add_insecure_port(f"{host}:{port}")

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(1)


class Port:
    """A port of an engine on an event loop in a thread of its own."""

    def __init__(self, rpcs: Rpcs, host: str, **arguments: Any) -> None:
        engine, _, loop = host.partition(" on ")
        self._loop = uvloop.new_event_loop() if loop else asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.number = self.run(self._start(rpcs, engine, arguments))
        self.address = f"127.0.0.1:{self.number}"

    async def _start(self, rpcs: Rpcs, engine: str, arguments: dict[str, Any]) -> int:
        if engine == "grpcio":
            self._port: Any = Embedding(rpcs, channel_arguments(Settings()) | arguments)
        else:
            self._port = NativePort(rpcs, Settings(_custom_grpc_server_settings=arguments))
        number = self._port.bind("127.0.0.1", 0)
        await self._port.start()
        return number

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def stop(self) -> None:
        self.run(self._port.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()


@contextmanager
def serving(rpcs: Rpcs, host: str, **arguments: Any) -> Iterator[Port]:
    """A port that serves these RPCs with these channel arguments."""
    port = Port(rpcs, host, **arguments)
    try:
        yield port
    finally:
        port.stop()
