"""Calls over gRPC."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import grpc

from ..errors import CallFailed, InvalidRequest
from ..protos.converters import (
    ModelInferRequestConverter,
    ModelInferResponseConverter,
    ModelMetadataResponseConverter,
)
from ..protos.dataplane_pb2 import ModelMetadataRequest
from ..protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from ..protos.grpc import FIELDS
from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse
from .transport import Target

RETRYABLE = frozenset((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED))
"""A server with a full queue returns RESOURCE_EXHAUSTED, the 429 of gRPC."""

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # The caller makes and counts retries. The channel only has to connect again quickly.
    ("grpc.enable_retries", 0),
    ("grpc.max_reconnect_backoff_ms", 2000),
]


class GrpcTransport:
    """One channel to a server, opened by the first call."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._channel: grpc.aio.Channel | None = None
        self._stub: GRPCInferenceServiceStub | None = None

    async def infer(self, request: InferenceRequest, headers: Mapping[str, str]) -> InferenceResponse:
        stub = self._stub or await self._open()
        raw = self._target.binary or any(tensor.datatype not in FIELDS for tensor in request.inputs)
        message = ModelInferRequestConverter.from_types(request, self._target.model, use_raw=raw)
        metadata = [(name.lower(), value) for name, value in headers.items()]
        try:
            response = await stub.ModelInfer(message, metadata=metadata, timeout=self._target.timeout)
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error
        try:
            return ModelInferResponseConverter.to_types(response)
        except InvalidRequest as error:
            raise CallFailed(f"The server's answer is not a V2 response: {error.message}") from error

    async def metadata(self) -> MetadataModelResponse:
        """The model's metadata. Raises CallFailed."""
        stub = self._stub or await self._open()
        message = ModelMetadataRequest(name=self._target.model)
        try:
            response = await stub.ModelMetadata(message, timeout=self._target.timeout)
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error
        return ModelMetadataResponseConverter.to_types(response)

    async def channel(self) -> grpc.aio.Channel:
        """The channel, for further RPCs. Raises CallFailed."""
        if self._channel is None:
            await self._open()
        assert self._channel is not None
        return self._channel

    async def _open(self) -> GRPCInferenceServiceStub:
        self._channel = await _open_channel(self._target)
        self._stub = GRPCInferenceServiceStub(self._channel)
        return self._stub

    def _failure(self, error: grpc.aio.AioRpcError) -> CallFailed:
        assert self._channel is not None
        state = self._channel.get_state()
        lost = state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.CONNECTING)
        return CallFailed(
            f"{error.code().name}: {error.details()}",
            retryable=error.code() in RETRYABLE,
            unreachable=lost and error.code() is grpc.StatusCode.UNAVAILABLE,
        )

    async def aclose(self) -> None:
        if self._channel is not None:
            await self._channel.close(None)


async def _open_channel(target: Target) -> grpc.aio.Channel:
    """A channel to the server. Raises CallFailed if its certificate cannot be read."""
    url = target.url
    address = urlsplit(url).netloc if "://" in url else url
    if not (target.ssl or url.startswith(("https://", "grpcs://"))):
        return grpc.aio.insecure_channel(address, options=OPTIONS)
    if target.verify:
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(), options=OPTIONS)
    certificate, name = await _certificate_of(address, target.timeout)
    options = [*OPTIONS, ("grpc.ssl_target_name_override", name)]
    credentials = grpc.ssl_channel_credentials(certificate)
    return grpc.aio.secure_channel(address, credentials, options=options)


async def _certificate_of(address: str, timeout: float) -> tuple[bytes, str]:
    """The server's certificate as PEM, and a name in it. Raises CallFailed.

    gRPC always verifies a certificate. To accept any certificate, a channel has this one as its only root.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        async with asyncio.timeout(timeout):
            context = _context()
            found = (await _handshake(host, int(port), context)).getpeercert(binary_form=True)
            pem = ssl.DER_cert_to_PEM_cert(found or b"")
            # `ssl` parses only a verified certificate, so this one is verified against itself.
            context = _context()
            context.load_verify_locations(cadata=pem)
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            parts = (await _handshake(host, int(port), context)).getpeercert() or {}
    except (OSError, ValueError, TimeoutError) as error:
        raise CallFailed(f"no connection: {error}", retryable=True, unreachable=True) from error
    names: Any = parts.get("subjectAltName", ())
    return pem.encode(), next((str(value) for _, value in names), host)


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
