"""A transport that calls the typed RPCs of an app, like any client generated from its `.proto` file."""

from ..errors import CallFailed
from ..functions.app import App
from ..protos.typed import build_method
from ..protos.typed_client import TypedMessages
from .grpc import GrpcTransport, ModelRpcs
from .transport import OutgoingCall, Target


class TypedTransport(GrpcTransport):
    """A gRPC transport for typed RPCs. The functions of the app define the messages."""

    def __init__(self, target: Target, app: App) -> None:
        super().__init__(target)
        self._messages = {
            function.name: TypedMessages(method)
            for function in app
            if (method := build_method(function.name, function.signature())) is not None
        }

    async def rpcs(self, call: OutgoingCall) -> ModelRpcs:
        messages = self._messages.get(call.model.name)
        if messages is None:
            raise CallFailed(f'The app has no typed RPC for the model "{call.model.name}"', status=404)
        channel, path = await self.channel(), messages.method.path
        return ModelRpcs(
            channel.unary_unary(path, bytes, bytes),
            channel.stream_stream(path, bytes, bytes),
            messages.write,
            messages.read,
        )
