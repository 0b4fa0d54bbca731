"""`V2Client`: sends V2 requests unchanged, for programs that build requests themselves."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from ..protos.json_requests import build_request, load_request
from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse
from .client import build_transport
from .retries import retry
from .transport import ModelName, OutgoingCall, Target

if TYPE_CHECKING:
    import grpc


class V2Client:
    """A client for V2 requests and responses, over REST or gRPC.

    `target` sets the time limit of each attempt, in seconds, and whether tensors are binary. The limit is
    only sent to the server over gRPC. Calls raise CallFailed. Raises MissingExtra if gRPC is not installed.
    """

    def __init__(self, target: Target, *, over_grpc: bool = False) -> None:
        self._target = target
        self._transport = build_transport(target, over_grpc)

    async def infer(
        self,
        model: str,
        request: InferenceRequest,
        headers: Mapping[str, str] | None = None,
        *,
        retries: int = 0,
    ) -> InferenceResponse:
        """Send a request and return the response. Transient failures are retried up to `retries` times."""
        call = self._call(model, request, headers)
        return await retry(lambda: self._transport.infer(call), retries)

    def stream(
        self, model: str, request: InferenceRequest, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[InferenceResponse, None]:
        """Yield each response of a stream when it arrives. Closing the iterator cancels the call."""
        return self._transport.stream(self._call(model, request, headers))

    async def metadata(self, model: str) -> MetadataModelResponse:
        """Return the metadata of a model. The request has the headers of the target."""
        return await self._transport.metadata(ModelName(model), self._target.timeout)

    def encode(self, model: str, request: InferenceRequest) -> tuple[dict[str, str], bytes]:
        """Return the headers and body that `infer` sends over REST.

        Over gRPC, returns no headers and the serialized message. Raises InvalidRequest if a value cannot be
        encoded.
        """
        return self._transport.encode(self._call(model, request, None))

    @staticmethod
    def read_request(text: bytes) -> InferenceRequest:
        """Parse a request in JSON, for example from a file.

        Raises InvalidRequest naming the invalid field.
        """
        document, rest = load_request(text)
        return build_request(document, rest, None)[0]

    async def channel(self) -> "grpc.aio.Channel":
        """Return the gRPC channel, for other RPCs.

        Raises CallFailed, or TypeError if the client uses REST.
        """
        from .grpc import GrpcTransport  # imported lazily: it needs an extra

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
