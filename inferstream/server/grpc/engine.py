"""The engine of the gRPC port: what carries the RPCs over HTTP/2."""

from typing import Protocol

from ...errors import InvalidSettings
from ...settings import Settings
from ..options import grpc_options
from ..tls import certificates
from .rpc import Rpcs

SOURCE = "_custom_grpc_server_settings"

HEADROOM = 2**20
"""Bytes that a message may have beside its tensors."""

MAX_STREAMS = 4096
"""Calls in progress on one connection."""


class GrpcPort(Protocol):
    """The gRPC port of a server."""

    def bind(self, host: str, port: int) -> int:
        """Bind the port and return its number. Raises InvalidSettings if it is in use."""

    def join(self, host: str, port: int) -> int:
        """Bind a port that another front end has bound for all, and return its number."""

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Close the port; calls in progress have a second to end."""


def build_port(rpcs: Rpcs, settings: Settings) -> GrpcPort:
    """A port that serves these RPCs. Raises InvalidSettings for wrong options, and without the engine's extra."""
    custom = settings.custom_grpc_server_settings
    found = certificates(custom or {}, settings.model_repository_root, SOURCE)
    arguments = _arguments(settings)
    try:
        from .grpcio.port import GrpcioPort  # late: it imports the library
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f'the gRPC port needs `pip install "inferstream[grpc]"`: {missing.name} is not installed'
        ) from None
    return GrpcioPort(rpcs, arguments, found, settings.frontends > 1)


def _arguments(settings: Settings) -> list[tuple[str, str | int]]:
    """The channel arguments of the port."""
    largest = settings.grpc_max_message_length
    arguments: dict[str, str | int] = {
        "grpc.max_receive_message_length": largest or settings.max_body_bytes + HEADROOM,
        "grpc.max_send_message_length": largest or -1,
        # Only front ends of one server share a port; otherwise a port in use is an error.
        "grpc.so_reuseport": int(settings.frontends > 1),
        "grpc.max_concurrent_streams": MAX_STREAMS,
        "grpc.max_metadata_size": 16 * 1024,
        # Clients may ping often to keep connections through proxies open.
        "grpc.http2.min_ping_interval_without_data_ms": 5_000,
        "grpc.keepalive_permit_without_calls": 1,
    }
    return [*(arguments | grpc_options(settings.custom_grpc_server_settings, SOURCE)).items()]
