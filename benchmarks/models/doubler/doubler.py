"""The smallest useful model: an array in, twice the array out."""

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Doubler(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        doubled = NumpyCodec.decode_input(payload.inputs[0]) * 2
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", doubled)])
