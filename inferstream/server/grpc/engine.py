"""The engine of the gRPC port, which carries the RPCs over HTTP/2: the library grpcio or our own."""

import logging
from typing import Literal, Protocol

from ...errors import InvalidSettings, MissingExtra
from ...settings import Settings
from ..standin import StandIn
from ..tls import certificates
from .options import SOURCE, channel_arguments, custom_arguments, lacking, options_of
from .rpc import Rpcs

logger = logging.getLogger("inferstream.grpc")

Engine = Literal["native", "grpcio"]

PREFERRED: Engine = "native"
"""The engine that `auto` chooses if it knows each channel argument of the settings."""


class GrpcPort(Protocol):
    """The gRPC port of a server."""

    def bind(self, host: str, port: int) -> int:
        """Bind the port and return its number. Raises InvalidSettings if it is in use."""

    def join(self, host: str, port: int) -> int:
        """Bind a port that another front end has bound for all, and return its number."""

    async def start(self) -> None: ...

    def drain(self) -> None:
        """Let clients make their next calls elsewhere; those in progress go on."""

    async def stop(self) -> None:
        """Close the port; calls in progress have a second to end."""


def engine_of(settings: Settings) -> Engine:
    """The engine that these settings choose. Raises InvalidSettings for a channel argument that it does not know."""
    unknown = lacking(custom_arguments(settings))
    if settings.grpc_engine == "native" and unknown is not None:
        raise InvalidSettings(f'{SOURCE}: "{unknown}" is unknown to grpc_engine native; grpcio has it')
    if settings.grpc_engine == "auto":
        return PREFERRED if unknown is None else "grpcio"
    return settings.grpc_engine


def explain_engine(settings: Settings) -> None:
    """Log why `auto` has not chosen the preferred engine."""
    if settings.grpc_engine == "auto" and engine_of(settings) != PREFERRED:
        unknown = lacking(custom_arguments(settings))
        logger.info('grpc_engine is grpcio, because %s needs it: "%s"', SOURCE, unknown)


def build_port(rpcs: Rpcs, settings: Settings, stand_in: StandIn | None = None) -> GrpcPort:
    """A port that serves these RPCs, and answers PINGs through `stand_in` while the event loop is held.

    Raises InvalidSettings for wrong options, and MissingExtra for grpcio.
    """
    custom = settings.custom_grpc_server_settings
    found = certificates(custom or {}, settings.model_repository_root, SOURCE)
    arguments = channel_arguments(settings)
    if engine_of(settings) == "native":
        from .native.port import NativePort  # late, as the other engine

        return NativePort(rpcs, options_of(arguments), settings, found, stand_in)
    try:
        from .grpcio.port import GrpcioPort  # late: it imports the library
    except ModuleNotFoundError as missing:
        raise MissingExtra("grpc_engine grpcio", "grpc", missing) from None
    return GrpcioPort(rpcs, [*arguments.items()], found, settings.frontends > 1)
