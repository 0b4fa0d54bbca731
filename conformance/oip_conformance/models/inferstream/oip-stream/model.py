"""A model that streams the words of its input, and raises an error at the word `!fail`."""

import asyncio
from collections.abc import AsyncIterator

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse

PAUSE = 0.05


class Stream(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self._response(" ".join([word async for word in words(payload)]))

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for payload in payloads:
            first = True
            async for word in words(payload):
                yield self._response(word if first else f" {word}")
                first = False

    def _response(self, text: str) -> InferenceResponse:
        output = StringCodec.encode_output("text_output", [text])
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=[output])


async def words(payload: InferenceRequest) -> AsyncIterator[str]:
    """Yield the words of the input, with a pause between them."""
    texts = {tensor.name: tensor for tensor in payload.inputs}
    for number, word in enumerate(StringCodec.decode_input(texts["text_input"])[0].split()):
        if number:
            await asyncio.sleep(PAUSE)
        if word == "!fail":
            raise ValueError("the text says that the model shall fail")
        yield word
