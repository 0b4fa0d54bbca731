"""MLServer's dialect of a stream: the stream is one call to the model of its first request."""

from collections.abc import AsyncIterator

from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.caller import Caller
from ....dataplane.dataplane import DataPlane
from ....protos.grpc import request_from, wants_typed
from ....protos.grpc_messages import MessageWriter
from ....protos.grpc_requests import InferMessage, size_of
from ....types import Headers, InferenceRequest, Parameters
from ...status import Profile
from ..context import TrailingHeaders
from .dialect import StreamDialect, StreamExchange, StreamRequest


class MLServerDialect(StreamDialect):
    """Responses are ModelInferResponses; an error ends the stream with its status."""

    name = "mlserver"

    def __init__(self, dataplane: DataPlane, profile: Profile) -> None:
        super().__init__(dataplane, profile)
        self._headers = TrailingHeaders(dataplane.events)

    @staticmethod
    def is_certain(message: InferMessage, metadata: Headers) -> bool:
        return any("content_type" in tensor.parameters for tensor in message.inputs)

    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        admission = first.admitted()
        request = request_from(first.message)
        more = _requests_after(admission, exchange, request)
        writer = MessageWriter(wants_typed(first.message))
        usage = admission.usage
        last: tuple[str | None, Parameters | None] | None = None
        async with await admission.open(Operation.STREAM, request, more) as reply:
            # Not before the first response: a client may retry a call that fails without metadata.
            await self.announce(exchange)
            async for response in reply:
                last = response.id, response.parameters
                message = response.accept(writer)
                if usage is not None:
                    usage.sent += len(message)
                await exchange.write(message)
                # Freed now: with hundreds of streams it would leave the core's caches before the next one.
                del response
        if last is not None:
            self._headers.send(exchange.context, admission.model, *last)


async def _requests_after(
    admission: Admission, exchange: StreamExchange, first: InferenceRequest
) -> AsyncIterator[InferenceRequest]:
    """The requests after the first, with the id of the first."""
    async for message in exchange:
        if admission.metering is not None:
            admission.received(size_of(message))
        request = request_from(message)
        request.id = first.id
        admission.identify(request)
        yield request
