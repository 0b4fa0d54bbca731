"""256 tokens without a pause: what is left is the cost of streaming them."""

from collections.abc import AsyncIterator

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Tokens(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        for i in range(256):
            yield InferenceResponse(
                model_name=self.name, outputs=[StringCodec.encode_output("token", [f" token{i}"])]
            )
