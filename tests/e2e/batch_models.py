"""Models that a batch is run against; copied into the folder the tests serve."""

import asyncio
import os

import numpy as np

from inferstream import MLModel
from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.errors import ModelError
from inferstream.types import InferenceRequest, InferenceResponse, ResponseOutput

asked: dict[str, int] = {}


def note(what: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(what + "\n")


class Double(MLModel):
    """Twice each value, and what it was told beside."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = []
        for tensor in payload.inputs:
            note(f"rows {tensor.shape[0]}")
            if tensor.datatype == "BYTES":
                outputs.append(
                    StringCodec.encode_output(tensor.name, [t * 2 for t in StringCodec.decode_input(tensor)])
                )
            else:
                outputs.append(NumpyCodec.encode_output(tensor.name, NumpyCodec.decode_input(tensor) * 2))
        headers = payload.parameters.headers if payload.parameters else {}
        note(f"headers {headers.get('seldon-puid')} {headers.get('x-request-id')} {headers.get('x-mine')}")
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=outputs)


class Total(MLModel):
    """One row, however many came."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        total = NumpyCodec.decode_input(payload.inputs[0]).sum()
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("total", np.array([total]))]
        )


class Picky(MLModel):
    """Refuses what is negative, and is busy when first asked for anything over 100."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        note(f"asked {payload.id}")
        value = payload.inputs[0].data[0]
        if value < 0:
            raise ModelError("it is negative")
        asked[str(payload.id)] = asked.get(str(payload.id), 0) + 1
        if value > 100 and asked[str(payload.id)] == 1:
            raise ModelError("busy", status_code=503)
        output = ResponseOutput(name="y", shape=[1], datatype="FP32", data=[value])
        return InferenceResponse(model_name=self.name, outputs=[output])


class Slow(Picky):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        await asyncio.sleep(0.05)
        return await super().predict(payload)
