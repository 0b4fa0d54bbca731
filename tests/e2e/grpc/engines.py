"""The engines of the gRPC port, each in this process with RPCs of the test's own."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from inferstream.server.grpc.engine import build_port
from inferstream.server.grpc.rpc import Rpcs
from inferstream.settings import Settings

ENGINES = ("grpcio", "native")

HOSTS = (*ENGINES, "native on uvloop")
"""The engines, and the event loop where it is not asyncio's own."""


class Port:
    """A port of an engine on an event loop in a thread of its own."""

    def __init__(self, rpcs: Rpcs, host: str, **arguments: Any) -> None:
        engine, _, loop = host.partition(" on ")
        self._loop = uvloop.new_event_loop() if loop else asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        settings = Settings(grpc_engine=engine, _custom_grpc_server_settings=arguments)
        self.number = self.run(self._start(rpcs, settings))
        self.address = f"127.0.0.1:{self.number}"

    async def _start(self, rpcs: Rpcs, settings: Settings) -> int:
        self._port = build_port(rpcs, settings)
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
