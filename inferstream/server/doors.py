"""The ports of inferences, REST and gRPC, over one dataplane."""

import asyncio
import socket
from typing import TYPE_CHECKING

from ..dataplane.dataplane import DataPlane
from ..errors import InvalidSettings
from ..settings import Settings
from ..telemetry.metrics import Meters
from .grpc.app import GrpcServer
from .rest.app import RestApp
from .rest.liveness import Liveness
from .rest.server import HttpServer

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
        self._parts = (dataplane, settings, meters)
        self._tracing = tracing
        self._liveness = liveness
        self.grpc = self._grpc()
        self.rest: HttpServer | None = None

    def build_rest(self) -> HttpServer:
        """Make what answers at the REST port."""
        settings = self._settings
        source_and_options = ("_custom_rest_server_settings", settings.custom_rest_server_settings)
        root = settings.model_repository_root
        self.rest = HttpServer(self._rest(), *source_and_options, root, guarded=True, liveness=self._liveness)
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

    def _rest(self) -> RestApp:
        if self._tracing is None:
            return RestApp(*self._parts)
        from .rest.tracing import TracedRestApp  # late: it imports OpenTelemetry

        return TracedRestApp(self._tracing, *self._parts)

    def _grpc(self) -> GrpcServer:
        if self._tracing is None:
            return GrpcServer(*self._parts)
        from .grpc.tracing import RpcTracing  # late, as above

        return GrpcServer(*self._parts, RpcTracing(self._tracing))


def build_tracing(settings: Settings) -> "Tracer | None":
    """What makes spans, where the settings name a collector. Raises InvalidSettings if the extra cannot be used."""
    if settings.tracing is None:
        return None
    try:
        from ..telemetry.tracing import Tracer
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f'tracing_server needs `pip install "inferstream[tracing]"`: {missing.name} is not installed'
        ) from None
    except Exception as error:
        # OpenTelemetry's generated modules refuse a protobuf that is older than they are, with an error of protobuf's.
        reason = str(error).partition("\n")[0]
        raise InvalidSettings(
            "tracing_server: the installed OpenTelemetry cannot be imported, "
            f'`pip install --upgrade "inferstream[tracing]"` may help: {type(error).__name__}: {reason}'
        ) from None
    return Tracer(*settings.tracing)
