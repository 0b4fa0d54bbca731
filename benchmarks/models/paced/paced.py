"""A token every 10 ms until the client leaves: what a language model looks like to its server."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import count

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse

PAUSE = 0.01


class Paced(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        due = time.perf_counter()
        for i in count():
            yield InferenceResponse(
                model_name=self.name, outputs=[StringCodec.encode_output("token", [f" token{i}"])]
            )
            due += PAUSE
            await asyncio.sleep(max(due - time.perf_counter(), 0))
