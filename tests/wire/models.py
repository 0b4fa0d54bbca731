"""Deterministic models for the wire corpus; copied into the folder that the recorded server serves."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import ClassVar

import numpy as np

from inferstream import Finished, MLModel, StepModel, custom_handler, request_context
from inferstream.codecs import NumpyCodec, StringCodec, decode_args
from inferstream.errors import ModelError
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput


def option(request: InferenceRequest, name: str, default):
    return request.parameters.get(name, default) if request.parameters else default


def words(model: MLModel, text: str) -> InferenceResponse:
    return InferenceResponse(
        model_name=model.name,
        model_version=model.version,
        outputs=[StringCodec.encode_output("output", [text])],
    )


class Echo(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            ResponseOutput(name=tensor.name, shape=tensor.shape, datatype=tensor.datatype, data=tensor.data)
            for tensor in payload.inputs
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)


class Arrays(MLModel):
    """The same through numpy, twice as much of each number."""

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            NumpyCodec.encode_output(tensor.name, NumpyCodec.decode_input(tensor) * 2)
            for tensor in payload.inputs
        ]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)


class Mirror(MLModel):
    """The parameters and headers of the request as text, and those parameters of its own that are asked for.

    gRPC writes parameters in any order, so that it is asked for one at a time.
    """

    own: ClassVar = {"number": 1, "share": 0.5, "flag": True, "text": "ü"}

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        given = payload.parameters
        said = sorted((name, value) for name, value in given.items() if name != "headers")
        headers = {
            name: value
            for name, value in given.headers.items()
            if name in ("x-custom", "x-request-id", "seldon-puid") or name.startswith("ce-")
        }
        response = words(self, f"{said} {sorted(headers.items())}")
        wanted = option(payload, "say", "text").split()
        response.parameters = Parameters(**{name: self.own[name] for name in wanted})
        if len(wanted) > 1:
            response.outputs[0].parameters = Parameters(content_type="str", unit="none")
        return response


class Headed(MLModel):
    """Sets headers on its responses, some of which may not travel."""

    def answer(self, number: int) -> InferenceResponse:
        response = words(self, f"headed {number}")
        headers = {"X-Model": f"item {number}", "content-length": "1", "x-bad": "a\r\nb: c", "ce-type": "own"}
        response.parameters = Parameters(headers=headers)
        return response

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.answer(0)

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for _ in payloads:
            yield self.answer(1)
            yield self.answer(2)


class Streaming(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        request = await anext(payloads)
        for i in range(option(request, "items", 3)):
            if i == option(request, "fail_at", -1):
                raise ValueError("canary")
            if i == option(request, "refuse_at", -1):
                raise ModelError("no tea today", status_code=418)
            if i == option(request, "bad_at", -1):
                yield 42
            yield words(self, f"item {i}" + "\n" * option(request, "newlines", 0))
            await asyncio.sleep(0)


class BlockingStream(MLModel):
    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        request = next(iter(payloads))
        for i in range(option(request, "items", 3)):
            yield words(self, f"item {i}")


class RunningSum(MLModel):
    """One response for each request of the stream."""

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        total = np.zeros(1, np.float32)
        async for payload in payloads:
            total = total + NumpyCodec.decode_input(payload.inputs[0]).sum(dtype=np.float32)
            yield InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("total", total)])


class Both(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return words(self, "predicted")

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for _ in payloads:
            yield words(self, "streamed")


class Count:
    def __init__(self, request: InferenceRequest) -> None:
        self.said = 0
        self.items = option(request, "items", 3)
        self.fail_at = option(request, "fail_at", -1)
        self.whole = request_context().single


class Steps(StepModel):
    def admit(self, request: InferenceRequest) -> Count:
        if option(request, "refuse", False):
            raise ModelError("not this one", status_code=409)
        return Count(request)

    def step(self, states: list[Count]) -> list:
        return [self.advance(state) for state in states]

    def advance(self, state: Count) -> object:
        state.said += 1
        last = state.said >= state.items
        if state.fail_at == state.said:
            return ValueError("canary")
        if state.whole:
            return Finished(words(self, f"{state.said} items")) if last else None
        response = words(self, f"item {state.said - 1}")
        return Finished(response) if last else response


class Failing(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        mode = option(payload, "mode", "value")
        if mode == "value":
            raise ValueError("canary")
        if mode == "model":
            raise ModelError("no tea today", status_code=418)
        if mode == "say":
            raise ModelError("ü % \n two lines")
        if mode == "none":
            return None
        output = {"name": "out", "shape": [2], "datatype": "FP32", "data": [1.0, 2.0]}
        changed = {
            "count": {"data": [1.0]},
            "type": {"data": ["a", "b"]},
            "negative": {"shape": [-1, 2]},
            "range": {"datatype": "INT8", "data": [1, 300]},
            "nan": {"data": [float("nan"), float("-inf")]},
            "binary text": {"datatype": "BYTES", "shape": [1], "data": [b"\xff\xfe"]},
        }[mode]
        outputs = [ResponseOutput(**output | changed)]
        return InferenceResponse.model_construct(model_name=self.name, outputs=outputs)


class Typed(MLModel):
    @decode_args
    async def predict(self, numbers: np.ndarray, names: list[str]) -> list[str]:
        return [f"{name} {numbers.sum():g}" for name in names]


class Routes(MLModel):
    """Routes of a model's own, beside the protocol's."""

    @custom_handler("/wire/hello/{name}", "GET")
    async def hello(self, name: str, times: int = 1) -> dict:
        return {"hello": [name] * times}

    @custom_handler("/wire/sum")
    def sum(self, numbers: list[float]) -> float:
        return sum(numbers)

    @custom_handler("/wire/fail")
    async def fail(self) -> None:
        raise ModelError("no tea today", status_code=418)

    @custom_handler("/wire/break")
    async def break_(self) -> None:
        raise ValueError("canary")

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return words(self, "routes")


def asked() -> int:
    """How often this was called, by all processes together."""
    with open(os.environ["TEST_LOG"], "a+") as file:
        file.write("asked\n")
        file.seek(0)
        return len(file.readlines())


class Cached(MLModel):
    """Says how often it was asked, by all processes together."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return words(self, f"asked {asked()}")


class Ranks(MLModel):
    """How many words of the query each document has."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        [query], documents = (StringCodec.decode_input(tensor) for tensor in payload.inputs)
        scores = [float(len({*query.split()} & {*document.split()})) for document in documents]
        output = NumpyCodec.encode_output("scores", np.array(scores))
        return InferenceResponse(model_name=self.name, outputs=[output], parameters={"prompt_tokens": 7})


class Slow(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        await asyncio.sleep(60)
        return words(self, "late")


class Holding(MLModel):
    """Says one thing and keeps its slot until the client leaves."""

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        await anext(payloads)
        yield words(self, "held")
        await asyncio.sleep(60)

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return words(self, "free")


class Broken(MLModel):
    async def load(self) -> bool:
        raise ValueError("canary")
