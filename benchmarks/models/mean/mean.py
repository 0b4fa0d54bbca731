"""A large tensor in, a small answer out: what is left is the cost of reading numbers."""

import numpy as np

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Mean(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        mean = np.array([NumpyCodec.decode_input(payload.inputs[0]).mean()])
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", mean)])
