"""A text, word by word."""

import asyncio
from collections.abc import AsyncIterator

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Model(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for payload in payloads:
            [prompt] = StringCodec.decode_input(payload.inputs[0])
            for word in str(prompt).split():
                await asyncio.sleep(0.2)
                yield InferenceResponse(
                    model_name=self.name,
                    model_version=self.version,
                    outputs=[StringCodec.encode_output("text", [word])],
                )
