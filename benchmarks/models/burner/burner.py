import time

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse


class Burner(MLModel):
    """Keeps the interpreter busy for a tenth of a second."""

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        until = time.perf_counter() + 0.1
        while time.perf_counter() < until:
            sum(range(100))
        array = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(model_name="burner", outputs=[NumpyCodec.encode_output("y", array)])
