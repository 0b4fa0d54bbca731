"""The certificate a server presents, for callers who choose to trust whatever that is."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

from ..errors import CallFailed


async def presented(address: str, timeout: float) -> tuple[bytes, str]:
    """The server's certificate as PEM, and a name it stands for. Raises CallFailed.

    gRPC cannot leave a certificate unchecked, but it can be told to expect this very one.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        async with asyncio.timeout(timeout):
            context = _context()
            found = (await _handshake(host, int(port), context)).getpeercert(binary_form=True)
            pem = ssl.DER_cert_to_PEM_cert(found or b"")
            # Only a certificate that was checked is shown in its parts, so it is checked against itself.
            context = _context()
            context.load_verify_locations(cadata=pem)
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            parts = (await _handshake(host, int(port), context)).getpeercert() or {}
    except (OSError, ValueError, TimeoutError) as error:
        raise CallFailed(f"no connection: {error}", retryable=True, unreachable=True) from error
    return pem.encode(), _name(parts) or host


def _name(certificate: Mapping[str, Any]) -> str | None:
    names = [str(value) for _, value in certificate.get("subjectAltName", ())]
    return names[0] if names else None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


async def _handshake(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLObject:
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return found
