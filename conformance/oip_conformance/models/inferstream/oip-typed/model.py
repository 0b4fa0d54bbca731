"""A model that declares its inputs and outputs, and returns INPUT0 as OUTPUT0 and INPUT1 as OUTPUT1."""

from inferstream import MLModel
from inferstream.types import InferenceRequest, InferenceResponse, ResponseOutput


class Typed(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        tensors = {tensor.name: tensor for tensor in payload.inputs}
        outputs = [
            ResponseOutput(name=name, datatype=tensor.datatype, shape=tensor.shape, data=tensor.data)
            for name, tensor in (("OUTPUT0", tensors["INPUT0"]), ("OUTPUT1", tensors["INPUT1"]))
        ]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
