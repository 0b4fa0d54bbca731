"""A model that returns its inputs, of any datatype, in order."""

from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class Identity(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            ResponseOutput(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape, data=tensor.data)
            for tensor in payload.inputs
        ]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
