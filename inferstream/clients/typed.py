"""Calls the typed RPCs of an app, as every client that has its `.proto` file."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from ..errors import CallFailed
from ..functions.app import App
from ..protos.typed import method_of
from ..protos.typed_client import TypedMessages
from ..types import InferenceResponse
from .client import AsyncClient
from .grpc import GrpcTransport, bounded, exchanged, failures, metadata_of
from .transport import OutgoingCall, Target


class TypedTransport(GrpcTransport):
    """A channel whose calls are typed RPCs. The functions of the app say what their messages are."""

    def __init__(self, target: Target, app: App) -> None:
        super().__init__(target)
        self._messages = {
            function.name: TypedMessages(method)
            for function in app
            if (method := method_of(function.name, function.signature())) is not None
        }

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        messages = self._of(call)
        rpc = (await self.channel()).unary_unary(messages.method.path, bytes, bytes)
        with failures():
            data = await rpc(
                messages.write(call.request), metadata=metadata_of(call), timeout=bounded(call.timeout)
            )
        return messages.read(data)

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        messages = self._of(call)
        begin = (await self.channel()).stream_stream(messages.method.path, bytes, bytes)
        rpc = begin(None, metadata=metadata_of(call), timeout=bounded(call.timeout))
        async with aclosing(exchanged(rpc, _written(messages, call))) as responses:
            async for data in responses:
                yield messages.read(data)

    def _of(self, call: OutgoingCall) -> TypedMessages:
        messages = self._messages.get(call.model.name)
        if messages is None:
            raise CallFailed(f'The app has no typed RPC for the model "{call.model.name}"', status=404)
        return messages


async def _written(messages: TypedMessages, call: OutgoingCall) -> AsyncIterator[bytes]:
    yield messages.write(call.request)
    if call.more is not None:
        async for request in call.more:
            yield messages.write(request)


class TypedClient(AsyncClient):
    """A client of the typed RPCs of `app`. Its arguments are those of `AsyncClient`."""

    def __init__(self, url: str, app: App, *, timeout: float = 60.0, retries: int = 2) -> None:
        super().__init__(url, app=app, timeout=timeout, retries=retries)
        self._transport = TypedTransport(Target(url, timeout), app)
