"""MLServer's dialect of a stream: one model, whose calls read the requests of the stream in order."""

from contextlib import closing
from functools import partial

from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.caller import Caller
from ....dataplane.dataplane import DataPlane
from ....errors import InferstreamError, InvalidRequest
from ....protos.grpc import request_from, wants_typed
from ....protos.grpc_messages import MessageWriter
from ....protos.grpc_requests import InferMessage, size_of
from ....types import Headers, InferenceRequest, Parameters
from ...status import Profile
from ..context import TrailingHeaders
from .dialect import LaterRequests, StreamDialect, StreamExchange, StreamRequest


class MLServerDialect(StreamDialect):
    """Responses are ModelInferResponses; an error ends the stream with its status."""

    name = "mlserver"
    aliases = ("v2",)

    def __init__(self, dataplane: DataPlane, profile: Profile) -> None:
        super().__init__(dataplane, profile)
        self._headers = TrailingHeaders()

    @staticmethod
    def is_certain(first: StreamRequest, metadata: Headers) -> bool:
        return any("content_type" in tensor.parameters for tensor in first.message.inputs)

    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        admission = first.admitted()
        read = partial(_request_to, admission, first.message)
        message: InferMessage | None = first.message
        while message is not None:
            try:
                request = read(message)
            except InferstreamError as error:
                self._dataplane.refused(caller, "stream", admission.model, error)
                raise
            announce = message is first.message
            with closing(LaterRequests(admission, exchange, request, read, size_of)) as more:
                await self._answer(admission, request, more, exchange, wants_typed(message), announce)
            # A model that asks for no later request takes one at a time, so it is called for each.
            message = None if more.is_read else await exchange.read()
            if message is not None and admission.metering is not None:
                admission.size = size_of(message)

    async def _answer(
        self,
        admission: Admission,
        request: InferenceRequest,
        more: LaterRequests[InferMessage],
        exchange: StreamExchange,
        typed: bool,
        announce: bool,
    ) -> None:
        writer = MessageWriter(typed)
        usage = admission.usage
        last: tuple[str | None, Parameters | None] | None = None
        async with await admission.open(Operation.STREAM, request, more) as reply:
            if (
                announce
            ):  # not before the first response: a client may retry a call that fails without metadata
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
            self._headers.send(exchange.context, admission, *last)


def _request_to(admission: Admission, first: InferMessage, message: InferMessage) -> InferenceRequest:
    """The request in a message. Raises InvalidRequest if it is for another model than the `first` one.

    A later message may leave the name and the version empty.
    """
    for field, sent, expected in (
        ("model_name", message.model_name, first.model_name),
        ("model_version", message.model_version, first.model_version or admission.pipeline.settings.version),
    ):
        if sent and sent != expected:
            raise InvalidRequest(
                f'"{field}" is "{sent}", and this stream is of model "{first.model_name}"'
                + (f', version "{expected}"' if field == "model_version" and expected else "")
            )
    return request_from(message)
