"""The REST and gRPC ports over one dataplane."""

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
from .rest.server import HttpServer, rest_service

UNUSED_SECONDS = 1.0
"""Seconds after which the memory of large bodies that have gone is returned."""


class Doors:
    """The ports of one front end. Raises InvalidSettings for wrong options of a port."""

    def __init__(
        self, dataplane: DataPlane, settings: Settings, meters: Meters, edges: Sequence[Edge]
    ) -> None:
        meters.inflight.on_fall = return_freed_memory_later
        rpcs = build_services(dataplane, settings, meters, edges)
        web = build_web(rpcs, settings, Origins(settings).check)
        service = rest_service(RestApp(dataplane, settings, meters, edges, web), settings)
        self.rest = HttpServer(service, settings, "rest")
        if settings.one_port:
            check_certificate(settings, self.rest.scheme == "https")
            beside = self.rest.over_http2(service).accept
            self.grpc = NativePort(rpcs, settings, beside, meters.inflight)
            self.rest.speak_http2(self.grpc.guest)
        else:
            self.grpc = NativePort(rpcs, settings, inflight=meters.inflight)

    async def start(self, sock: socket.socket) -> None:
        """Serve REST at this socket, and gRPC at the port that it is bound to."""
        await self.rest.start(sock)
        await self.grpc.start()

    def drain(self) -> None:
        """Let clients make their next calls elsewhere, and close connections without a call."""
        self.grpc.drain()
        self.rest.drain()

    async def stop(self) -> None:
        """Close the ports; responses that are being written have a moment to reach their clients."""
        await asyncio.gather(self.grpc.stop(), self.rest.stop())


def return_freed_memory_later() -> None:
    """Return the memory of large bodies, which the allocator keeps, unless others come that use it again."""
    loop = asyncio.get_running_loop()
    loop.call_later(UNUSED_SECONDS, loop.run_in_executor, None, return_freed_memory)


def check_certificate(settings: Settings, encrypted: bool) -> None:
    """Raise InvalidSettings where one port would serve gRPC without the certificate that is named for it."""
    if not encrypted and (settings.custom_grpc_server_settings or {}).get("ssl_certfile"):
        raise InvalidSettings(
            "_custom_grpc_server_settings: one port has one certificate, that of _custom_rest_server_settings"
        )
