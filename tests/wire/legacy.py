"""A model written for MLServer, in the wire corpus."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Legacy(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        array = self.decode(payload.inputs[0], default_codec=NumpyCodec)
        return InferenceResponse(
            id=payload.id,
            model_name=self.name,
            model_version=self.version,
            outputs=[NumpyCodec.encode_output("y", array)],
        )
