"""The REST and gRPC ports of a front-end process, which share one dataplane."""

import asyncio
import socket
from collections.abc import Sequence

from ..allocator import return_freed_memory
from ..dataplane.dataplane import DataPlane
from ..errors import InvalidSettings
from ..settings import Settings
from ..telemetry.metrics import Meters
from .edge import Edge
from .grpc.native.port import NativePort
from .grpc.services import build_services
from .grpc.web.door import build_web
from .rest.app import RestApp
from .rest.origins import Origins
from .rest.server import HttpServer, build_rest_service

UNUSED_SECONDS = 1.0
"""Seconds before the memory of large requests that have finished is returned to the kernel."""


class Doors:
    """The ports of one front-end process. Raises InvalidSettings for invalid port options."""

    def __init__(
        self, dataplane: DataPlane, settings: Settings, meters: Meters, edges: Sequence[Edge]
    ) -> None:
        meters.inflight.on_fall = return_freed_memory_later
        rpcs = build_services(dataplane, settings, meters, edges)
        web = build_web(rpcs, settings, Origins(settings).check)
        service = build_rest_service(RestApp(dataplane, settings, meters, edges, web), settings)
        self.rest = HttpServer(service, settings, "rest")
        if settings.one_port:
            check_certificate(settings, self.rest.scheme == "https")
            beside = self.rest.build_stream_requests(service).accept
            self.grpc = NativePort(rpcs, settings, beside, meters.inflight)
            self.rest.speak_http2(self.grpc.guest)
        else:
            self.grpc = NativePort(rpcs, settings, inflight=meters.inflight)

    async def start(self, sock: socket.socket) -> None:
        """Start the REST port on this socket, and the gRPC port, which is already bound."""
        await self.rest.start(sock)
        await self.grpc.start()

    def drain(self) -> None:
        """Close idle connections now, and other connections once their calls in progress finish."""
        self.grpc.drain()
        self.rest.drain()

    async def stop(self) -> None:
        """Close the ports after giving responses in progress a moment to reach their clients."""
        await asyncio.gather(self.grpc.stop(), self.rest.stop())


def return_freed_memory_later() -> None:
    """Return freed memory to the kernel after `UNUSED_SECONDS`, because the allocator would keep it.

    The delay lets the next large request reuse the memory.
    """
    loop = asyncio.get_running_loop()
    loop.call_later(UNUSED_SECONDS, loop.run_in_executor, None, return_freed_memory)


def check_certificate(settings: Settings, encrypted: bool) -> None:
    """Raise InvalidSettings if gRPC has its own certificate on a shared port that does not use TLS."""
    if not encrypted and (settings.custom_grpc_server_settings or {}).get("ssl_certfile"):
        raise InvalidSettings(
            "_custom_grpc_server_settings: one port has one certificate, that of _custom_rest_server_settings"
        )
