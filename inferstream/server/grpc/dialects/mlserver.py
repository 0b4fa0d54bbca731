"""MLServer's dialect of a stream: the stream is one call to the model of its first request."""

from ....dataplane.call import Operation
from ....dataplane.caller import Caller
from ....dataplane.dataplane import DataPlane
from ....errors import InferstreamError
from ....protos.grpc import request_from, wants_typed
from ....protos.grpc_messages import MessageWriter
from ....protos.grpc_requests import InferMessage, size_of
from ....types import Headers, Parameters
from ...status import Profile
from ..context import TrailingHeaders
from .dialect import StreamDialect, StreamExchange, StreamRequest, later_requests


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
        try:
            request = request_from(first.message)
        except InferstreamError as error:
            self._dataplane.refused(caller, "stream", admission.model, error)
            raise
        more = later_requests(admission, exchange, request, request_from, size_of)
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
