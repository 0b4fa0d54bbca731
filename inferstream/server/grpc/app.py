"""The gRPC server with its limits and its port."""

import logging
import ssl
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from ...dataplane.dataplane import DataPlane
from ...errors import InvalidSettings
from ...settings import Settings
from ...telemetry.metrics import Meters
from ..options import grpc_options
from ..ports import bind, share
from ..tls import Certificates, certificates
from .services import build_services

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer

logger = logging.getLogger("inferstream.grpc")

HEADROOM = 2**20
"""Bytes that a message may have beside its tensors."""

MAX_STREAMS = 4096
"""Calls in progress on one connection."""

SOURCE = "_custom_grpc_server_settings"


class GrpcServer:
    """One gRPC port."""

    def __init__(
        self, dataplane: DataPlane, settings: Settings, meters: Meters, tracing: "Tracer | None"
    ) -> None:
        custom = settings.custom_grpc_server_settings
        self._certificates = certificates(custom or {}, settings.model_repository_root, SOURCE)
        if self._certificates is not None:
            self._certificates.check_grpc()
        self._shared = settings.frontends > 1
        self._server = grpc.aio.server(options=_options(settings))
        services = build_services(dataplane, settings, meters, tracing)
        self._server.add_generic_rpc_handlers(services)

    def bind(self, host: str, port: int) -> int:
        """Bind the port and return its number. Raises InvalidSettings if it is in use."""
        probe = bind(host, port, "gRPC")  # gRPC's own error names neither the port nor the reason
        if not self._shared:
            probe.close()
            return self.join(host, port)
        with probe:  # until gRPC listens too, so that no other process can bind the port in between
            share(probe)
            return self.join(host, probe.getsockname()[1])

    def join(self, host: str, port: int) -> int:
        """Bind a port that another front end has bound for all, and return its number."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._certificates is None:
            return int(self._server.add_insecure_port(address))
        return int(self._server.add_secure_port(address, _credentials(self._certificates)))

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        """Close the port; calls in progress have a second to end."""
        await self._server.stop(1)


def _options(settings: Settings) -> list[tuple[str, str | int]]:
    largest = settings.grpc_max_message_length
    options: dict[str, str | int] = {
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
    return [*(options | grpc_options(settings.custom_grpc_server_settings, SOURCE)).items()]


def _credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Credentials that check at each handshake whether the certificate has changed."""

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        try:
            return certificates.for_grpc() if certificates.changed() else None
        except (InvalidSettings, OSError) as error:
            logger.error("the certificate has changed and cannot be used: %s", error)
            return None

    required = certificates.clients is ssl.CERT_REQUIRED
    first = certificates.for_grpc()
    return grpc.dynamic_ssl_server_credentials(first, renewed, required)  # type: ignore[arg-type]  # None too
