"""Streams of ModelStreamInfer whose requests and responses have a text as their id, and no tensors."""

from inferstream.codecs import StringCodec
from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Caller, Operation
from inferstream.ext.rpc import ModelInferResponse, StreamDialect, StreamExchange, StreamRequest
from inferstream.types import Headers, InferenceRequest

from .facet import Voice


class ShoutStream(StreamDialect):
    name = "shout"

    @staticmethod
    def is_certain(first: object, metadata: Headers) -> bool:
        return False  # only for clients that name it

    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        admission = first.admitted()
        voice = admission.facet(Voice)
        if voice is None:
            raise InvalidRequest(f"{admission.model} takes no single text")
        await self.announce(exchange)
        message = first.message
        while True:
            request = InferenceRequest(inputs=[StringCodec.encode_input(voice.input, [message.id])])
            async with await admission.open(Operation.INFER, request) as reply:
                async for response in reply:
                    [text] = StringCodec.decode_output(response.outputs[0])
                    await exchange.write(ModelInferResponse(id=text).SerializeToString())
            if (following := await exchange.read()) is None:
                return
            message = following
