"""The gRPC client of the load test."""

from collections.abc import AsyncIterator, Mapping

import grpc

from inferstream.errors import CallFailed
from inferstream.ext.rpc import SERVICE

from .load import ItemCame


class GrpcCaller:
    """Repeatedly sends the same serialized message and counts the messages of streams.

    All instances share one channel.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        timeout: float,
        stream: bool,
        message: bytes,
        headers: Mapping[str, str],
    ) -> None:
        # Without deserializers, because parsing responses would take most of the client's time.
        self._unary = channel.unary_unary(f"/{SERVICE}/ModelInfer", None, None)
        self._streaming = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer", None, None)
        self._timeout = timeout
        self._stream = stream
        self._message = message
        self._metadata = [(name.lower(), value) for name, value in headers.items()]

    async def call(self, came: ItemCame) -> None:
        try:
            if not self._stream:
                await self._unary(self._message, metadata=self._metadata, timeout=self._timeout)
                return
            async for _ in self._streaming(self._one(), metadata=self._metadata, timeout=self._timeout):
                came(1)
        except grpc.aio.AioRpcError as error:
            late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            raise CallFailed("timeout" if late else f"{error.code().name}: {error.details()}") from error

    async def _one(self) -> AsyncIterator[bytes]:
        yield self._message

    async def aclose(self) -> None:
        """Do nothing, because the channel is shared."""
