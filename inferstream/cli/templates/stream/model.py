"""Streams the words of a prompt."""

import asyncio
from collections.abc import AsyncIterator

from inferstream import InferenceRequest, MLModel, StringCodec


class Model(MLModel):
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        async for payload in payloads:
            [prompt] = StringCodec.decode_input(payload.inputs[0])
            for word in str(prompt).split():
                await asyncio.sleep(0.2)
                yield f"{word} "
