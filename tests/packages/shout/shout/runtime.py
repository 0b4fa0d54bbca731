"""A model without code of its user's: settings name it."""

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Loud(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        words = self.decode(payload.inputs[0], default_codec=StringCodec)
        loud = StringCodec.encode_output("loud", [word.upper() for word in words])
        return InferenceResponse(model_name=self.name, outputs=[loud])
