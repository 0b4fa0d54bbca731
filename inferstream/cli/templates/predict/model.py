"""The mean of each row."""

import numpy as np

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Model(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows: np.ndarray = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[NumpyCodec.encode_output("mean", rows.mean(axis=1))],
        )
