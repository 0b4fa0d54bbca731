"""gRPC channels: addresses, options and certificates."""

import asyncio
import ssl
from typing import Any
from urllib.parse import urlsplit

import grpc

from .failures import unreachable
from .transport import Target, build_unverified_context

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # The caller makes and counts the retries. The channel only has to reconnect quickly.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 250),
]


async def open_channel(target: Target) -> grpc.aio.Channel:
    """Open a channel to the server. Raises ConnectionFailed if the server's certificate cannot be fetched."""
    url = target.url
    address = urlsplit(url).netloc if "://" in url else url
    if not (target.ssl or url.lower().startswith(("https://", "grpcs://"))):
        return grpc.aio.insecure_channel(address, options=OPTIONS)
    if target.verify:
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(), options=OPTIONS)
    certificate, name = await _fetch_certificate(address, target.timeout)
    options = [*OPTIONS, ("grpc.ssl_target_name_override", name)]
    credentials = grpc.ssl_channel_credentials(certificate)
    return grpc.aio.secure_channel(address, credentials, options=options)


async def _fetch_certificate(address: str, timeout: float) -> tuple[bytes, str]:
    """Fetch the server's certificate as PEM, and a host name that it contains. Raises ConnectionFailed.

    gRPC cannot skip certificate verification. To accept any certificate, the channel trusts only this one as
    its root.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        async with asyncio.timeout(timeout):
            context = _context()
            certificate = (await _handshake(host, int(port), context)).getpeercert(binary_form=True)
            pem = ssl.DER_cert_to_PEM_cert(certificate or b"")
            # `ssl` only parses verified certificates, so verify this one against itself.
            context = _context()
            context.load_verify_locations(cadata=pem)
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            parts = (await _handshake(host, int(port), context)).getpeercert() or {}
    except (OSError, ValueError, TimeoutError) as error:
        raise unreachable(address, error) from None
    names: Any = parts.get("subjectAltName", ())
    return pem.encode(), next((str(value) for _, value in names), host)


def _context() -> ssl.SSLContext:
    context = build_unverified_context()
    context.set_alpn_protocols(["h2"])
    return context


async def _handshake(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLObject:
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    connection: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return connection
