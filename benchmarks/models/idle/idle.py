"""One token, and then nothing for long: a stream that only costs memory."""

import asyncio
from collections.abc import AsyncIterator

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Idle(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        while True:
            yield InferenceResponse(
                model_name=self.name, outputs=[StringCodec.encode_output("token", ["token"])]
            )
            await asyncio.sleep(60)
