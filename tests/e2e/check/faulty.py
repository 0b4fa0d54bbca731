"""Models with one fault each, and one without. Their names say what is wrong."""

import asyncio
import os
from collections.abc import AsyncIterator

import numpy as np

from inferstream import MLModel, StringCodec
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceRequest, InferenceResponse

os.environ.setdefault(
    "FAULTY_HOME", str(os.getpid())
)  # the process that imports this first, and no worker of it


def headers(payload: InferenceRequest) -> dict[str, str]:
    """The headers of the call, with names in lower case."""
    given = getattr(payload.parameters, "headers", None) or {}
    return {name.lower(): value for name, value in given.items()}


class Doubles(MLModel):
    """Without a fault: it doubles rows."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.respond(self.values(payload) * 2)

    def values(self, payload: InferenceRequest) -> np.ndarray:
        return NumpyCodec.decode_input(payload.inputs[0])

    def respond(self, values: np.ndarray) -> InferenceResponse:
        output = NumpyCodec.encode_output("y", values)
        output.shape = list(values.shape)  # the codec makes a column of a single dimension
        return InferenceResponse(model_name=self.name, outputs=[output])


class OtherRows(Doubles):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.respond(self.values(payload)[::-1] * 2)


class KeepsState(Doubles):
    calls = 0

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.calls += 1
        return self.respond(self.values(payload) + np.float32(self.calls))


class SharesABuffer(Doubles):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.buffer = self.values(payload) * 2
        await asyncio.sleep(0.001)
        return self.respond(self.buffer)


class BreaksInAWorker(Doubles):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        if os.environ["FAULTY_HOME"] != str(os.getpid()):
            raise RuntimeError("no device in this process")
        return await super().predict(payload)


class OtherDatatype(Doubles):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.respond(self.values(payload).astype(np.float64))


class OtherShape(Doubles):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.respond(self.values(payload).reshape(1, -1))


class OtherName(Doubles):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        output = NumpyCodec.encode_output("z", self.values(payload))
        return InferenceResponse(model_name=self.name, outputs=[output])


class Leaks(Doubles):
    kept: list[bytes] = []

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.kept.append(bytes(2000))
        return await super().predict(payload)


class FailsForSome(Doubles):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        if (self.values(payload) < 0).any():
            raise IndexError("no such row")
        return await super().predict(payload)


class ReadsTheForm(Doubles):
    """It answers JSON and bytes otherwise."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        binary = "inference-header-content-length" in headers(payload)
        return self.respond(self.values(payload) + np.float32(binary))


class ReadsTheFace(Doubles):
    """It answers gRPC otherwise."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        grpc = "grpc" in headers(payload).get("user-agent", "")
        return self.respond(self.values(payload) + np.float32(grpc))


class Speaks(MLModel):
    """Without a fault: it streams the words of what it returns."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.respond(self.text(payload))

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for payload in payloads:
            for letter in self.text(payload) or [""]:
                yield self.respond(letter)

    def text(self, payload: InferenceRequest) -> str:
        return StringCodec.decode_input(payload.inputs[0])[0].upper()

    def respond(self, text: str) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("text", [text])])


class StreamsOtherText(Speaks):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.respond(f"{self.text(payload)}.")


class IgnoresCancel(Speaks):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        ended = False
        payload = await anext(payloads)
        try:
            for letter in self.text(payload) or [""]:
                yield self.respond(letter)
                await asyncio.sleep(0.001)
            ended = True
        finally:
            if not ended:
                await asyncio.sleep(0.8)
