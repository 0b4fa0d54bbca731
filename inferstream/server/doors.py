"""The ports of inferences, REST and gRPC, over one dataplane."""

import asyncio
import socket
from typing import TYPE_CHECKING

from ..dataplane.dataplane import DataPlane
from ..settings import Settings
from ..telemetry.metrics import Meters
from .grpc.app import GrpcServer
from .rest.asgi import build_rest_app
from .rest.liveness import Liveness
from .rest.server import HttpServer
from .rest.transport import DirectApp

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracer


class Doors:
    """What a front end answers at. Raises InvalidSettings for options of a port that are wrong."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: Meters,
        tracing: "Tracer | None",
        liveness: Liveness,
    ) -> None:
        self._settings = settings
        self._parts = (dataplane, settings, meters, tracing)
        self._liveness = liveness
        self.grpc = GrpcServer(*self._parts)
        self.rest: HttpServer | None = None

    def build_rest(self) -> HttpServer:
        """Make what answers at the REST port."""
        settings = self._settings
        source_and_options = ("_custom_rest_server_settings", settings.custom_rest_server_settings)
        root = settings.model_repository_root
        app = DirectApp(build_rest_app(*self._parts), settings)
        self.rest = HttpServer(app, *source_and_options, root, guarded=True, liveness=self._liveness)
        return self.rest

    async def start(self, sock: socket.socket) -> None:
        """Answer: REST at this socket, gRPC at the port it has taken."""
        assert self.rest is not None
        self.rest.start(sock)
        self.rest.watch(self._settings.header_timeout, self._settings.body_timeout)
        await self.grpc.start()

    async def stop(self) -> None:
        """Close the ports; answers that are being written have a moment to get through."""
        await asyncio.gather(self.grpc.stop(), *([] if self.rest is None else [self.rest.stop()]))
