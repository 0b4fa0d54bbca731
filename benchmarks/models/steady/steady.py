"""Costs 5 ms a call, however many rows it is given: what an accelerator does to small requests."""

import time

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse

COST = 0.005


class Steady(MLModel):
    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        time.sleep(COST)
        doubled = NumpyCodec.decode_input(payload.inputs[0]) * 2
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", doubled)])
