"""The port of a `grpc.aio` server with its options and certificates."""

import logging
import ssl
from collections.abc import Sequence

import grpc
import grpc.aio

from ....errors import InvalidSettings
from ...ports import bind, share
from ...tls import Certificates
from ..rpc import Rpcs
from .handlers import RpcHandlers

logger = logging.getLogger("inferstream.grpc")


class GrpcioPort:
    """One gRPC port. Raises InvalidSettings for certificates that the library cannot use."""

    def __init__(
        self,
        rpcs: Rpcs,
        options: Sequence[tuple[str, str | int]],
        certificates: Certificates | None,
        shared: bool,
    ) -> None:
        if certificates is not None:
            check(certificates)
        self._certificates = certificates
        self._shared = shared
        self._reused = bool(dict(options).get("grpc.so_reuseport")) and not shared
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((RpcHandlers(rpcs),))

    def bind(self, host: str, port: int) -> int:
        """Bind the port and return its number. Raises InvalidSettings if it is in use."""
        probe = bind(
            host, port, "gRPC", shared=self._reused
        )  # gRPC's own error names neither the port nor the reason
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

    def drain(self) -> None:
        """The library tells clients when its port closes."""

    async def stop(self) -> None:
        """Close the port; calls in progress have a second to end."""
        await self._server.stop(1)


def check(certificates: Certificates) -> None:
    """Raise InvalidSettings for options of TLS that the library does not have."""
    source = certificates.source
    if certificates.password:
        raise InvalidSettings(f"{source}: gRPC reads no key that has a password")
    if certificates.clients is ssl.CERT_OPTIONAL:
        raise InvalidSettings(f'{source}: "ssl_cert_reqs" 1 is unknown to gRPC; it takes 0 or 2')
    if certificates.ciphers is not None:
        raise InvalidSettings(f"{source}: gRPC takes its ciphers from GRPC_SSL_CIPHER_SUITES")


def _credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Credentials that check at each handshake whether the certificate has changed."""

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        try:
            return _configuration(certificates) if certificates.changed() else None
        except (InvalidSettings, OSError) as error:
            logger.error("the certificate has changed and cannot be used: %s", error)
            return None

    required = certificates.clients is ssl.CERT_REQUIRED
    first = _configuration(certificates)
    return grpc.dynamic_ssl_server_credentials(first, renewed, required)  # type: ignore[arg-type]  # None too


def _configuration(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    key, certificate, authority = certificates.read()
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)
