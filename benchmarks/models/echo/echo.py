from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Echo(MLModel):
    """Hands an array back, having looked at it."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        array = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(model_name="echo", outputs=[NumpyCodec.encode_output("y", array)])
