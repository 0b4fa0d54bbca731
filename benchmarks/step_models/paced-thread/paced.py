"""256 tokens by a generator of its own for each stream, which waits before each, as for a device."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Paced(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        for i in range(256):
            await asyncio.sleep(0)
            yield InferenceResponse(
                model_name=self.name, outputs=[StringCodec.encode_output("token", [f" token{i}"])]
            )


class InThread(MLModel):
    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        for i in range(256):
            yield InferenceResponse(
                model_name=self.name, outputs=[StringCodec.encode_output("token", [f" token{i}"])]
            )
