"""The MLServer stream dialect: one model, whose calls read the requests of the stream in order."""

from contextlib import closing
from functools import partial

from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.caller import Caller
from ....dataplane.dataplane import DataPlane
from ....errors import InferstreamError, InvalidRequest
from ....protos.grpc import parse_request, wants_typed_contents
from ....protos.grpc_messages import MessageWriter
from ....protos.grpc_requests import InferMessage, message_size
from ....types import Headers, InferenceRequest, Parameters
from ...status import Profile
from ..context import TrailingHeaders
from .dialect import LaterRequests, StreamDialect, StreamExchange, StreamRequest


class MLServerDialect(StreamDialect):
    """Sends ModelInferResponse messages. An error becomes the status of the RPC."""

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
        read = partial(_parse_request, admission, first.message)
        message: InferMessage | None = first.message
        while message is not None:
            try:
                request = read(message)
            except InferstreamError as error:
                self._dataplane.log_rejection(caller, "stream", admission.model, error)
                raise
            announce = message is first.message
            with closing(LaterRequests(admission, exchange, request, read, message_size)) as more:
                await self._respond(
                    admission, request, more, exchange, wants_typed_contents(message), announce
                )
            # If the model has not read a later request, each request is a separate call.
            message = None if more.is_read else await exchange.read()
            if message is not None and admission.metering is not None:
                admission.size = message_size(message)

    async def _respond(
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
            # Not before the first response: a client may retry a call that fails without metadata.
            if announce:
                await self.announce(exchange)
            async for response in reply:
                last = response.id, response.parameters
                message = response.accept(writer)
                if usage is not None:
                    usage.sent += len(message)
                await exchange.write(message)
                # Freed now, while it is in the CPU cache: with hundreds of streams, it would not stay there.
                del response
        if last is not None:
            self._headers.send(exchange.context, admission, *last)


def _parse_request(admission: Admission, first: InferMessage, message: InferMessage) -> InferenceRequest:
    """Parse a request. Raises InvalidRequest if it names another model than the `first` request.

    Later messages may leave the model name and version empty.
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
    return parse_request(message)
