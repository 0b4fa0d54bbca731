"""The paced tokens as `str`, without a response of the model's own around each."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import count

from inferstream import MLModel
from inferstream.types import InferenceRequest

PAUSE = 0.01


class PacedText(MLModel):
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        due = time.perf_counter()
        for i in count():
            yield f" token{i}"
            due += PAUSE
            await asyncio.sleep(max(due - time.perf_counter(), 0))
