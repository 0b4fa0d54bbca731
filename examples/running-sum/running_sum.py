"""A bidirectional stream: each request adds to the sum, each response tells it."""

from collections.abc import AsyncIterator

import numpy as np

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse


class RunningSum(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        total = 0.0
        async for payload in payloads:
            total += float(NumpyCodec.decode_input(payload.inputs[0]).sum())
            yield InferenceResponse(
                model_name=self.name,
                outputs=[NumpyCodec.encode_output("sum", np.array([total]))],
            )
