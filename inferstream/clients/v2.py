"""`V2Client`: sends V2 requests as they are, for programs that have requests rather than Python values."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from ..protos.json_requests import build_request, load_request
from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse
from .client import transport_to
from .retries import retried
from .transport import ModelName, OutgoingCall, Target

if TYPE_CHECKING:
    import grpc


class V2Client:
    """A client of one server for V2 requests and responses, over REST or gRPC.

    `target` sets the time limit of each attempt, in seconds, and whether tensors are binary. The server gets the
    limit over gRPC only. Calls raise CallFailed. Raises MissingExtra if gRPC is not installed.
    """

    def __init__(self, target: Target, *, over_grpc: bool = False) -> None:
        self._target = target
        self._transport = transport_to(target, over_grpc)

    async def infer(
        self,
        model: str,
        request: InferenceRequest,
        headers: Mapping[str, str] | None = None,
        *,
        retries: int = 0,
    ) -> InferenceResponse:
        """The response to a request, which is sent again up to `retries` times after a failure that may pass."""
        call = self._call(model, request, headers)
        return await retried(lambda: self._transport.infer(call), retries)

    def stream(
        self, model: str, request: InferenceRequest, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[InferenceResponse, None]:
        """Each response of a stream when it arrives. Closing the iterator cancels the call."""
        return self._transport.stream(self._call(model, request, headers))

    async def metadata(self, model: str) -> MetadataModelResponse:
        """The metadata of a model, requested with the headers of the target."""
        return await self._transport.metadata(ModelName(model), self._target.timeout)

    def encode(self, model: str, request: InferenceRequest) -> tuple[dict[str, str], bytes]:
        """The headers and the body that `infer` sends over REST; no headers and the message over gRPC.

        Raises InvalidRequest for values that cannot be written.
        """
        return self._transport.encode(self._call(model, request, None))

    @staticmethod
    def read_request(text: bytes) -> InferenceRequest:
        """The request in a JSON text, such as a file. Raises InvalidRequest, which names the wrong field."""
        document, rest = load_request(text)
        return build_request(document, rest, None)[0]

    async def channel(self) -> "grpc.aio.Channel":
        """The gRPC channel, for other RPCs. Raises CallFailed, and TypeError for a client over REST."""
        from .grpc import GrpcTransport  # late: it needs an extra

        if not isinstance(self._transport, GrpcTransport):
            raise TypeError("a client over REST has no channel")
        return await self._transport.channel()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _call(self, model: str, request: InferenceRequest, headers: Mapping[str, str] | None) -> OutgoingCall:
        target = self._target
        return OutgoingCall(
            ModelName(model), request, headers or {}, target.timeout, target.binary, tells_timeout=False
        )
