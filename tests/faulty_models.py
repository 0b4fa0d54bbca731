"""Models that behave, and models that misbehave on request; copied into the folder the tests serve."""

import asyncio
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import numpy as np

from inferstream import MLModel, log, request_context
from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.errors import ModelError
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput

CANARY = "canary-/etc/secret-path"


def note(what: str) -> None:
    """Leave a line where the test that watches this model can read it."""
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(what + "\n")


def option(request: InferenceRequest, name: str, default):
    return request.parameters.get(name, default) if request.parameters else default


class Echo(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            ResponseOutput(name=tensor.name, shape=tensor.shape, datatype=tensor.datatype, data=tensor.data)
            for tensor in payload.inputs
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)


class Declared(Echo):
    """The same, with inputs and outputs declared in its settings."""


class Late(Echo):
    """The same after a while, and says which process it runs in."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        note(f"start {os.getpid()}")
        await asyncio.sleep(0.3)
        return await super().predict(payload)


class Slow(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        note(f"start {payload.id}")
        try:
            await asyncio.sleep(option(payload, "seconds", 1))
        finally:
            note(f"finally {payload.id}")
        return words(self, "slept")


class Blocking(MLModel):
    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        note(f"start {payload.id}")
        time.sleep(option(payload, "seconds", 1))
        log(blocked_seconds=1.0)
        return words(self, "blocked")


class Streaming(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        request = await anext(payloads)
        note(f"start {request.id}")
        try:
            await asyncio.sleep(option(request, "before", 0))
            for i in range(option(request, "items", 3)):
                if i == option(request, "fail_at", -1):
                    raise ValueError(CANARY)
                if i == option(request, "bad_at", -1):
                    yield 42
                yield words(self, f"item {i}")
                await asyncio.sleep(option(request, "delay", 0))
        finally:
            note(f"finally {request.id}")


class Spinning(MLModel):
    """Never awaits anything between its items."""

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        request = await anext(payloads)
        note(f"start {request.id}")
        size = option(request, "size", 1)
        made = 0
        try:
            while made < option(request, "items", 10**9):
                yield words(self, "x" * size)
                made += 1
        finally:
            note(f"finally {request.id} {made}")


class BlockingStream(MLModel):
    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        request = next(iter(payloads))
        note(f"start {request.id}")
        try:
            for i in range(option(request, "items", 3)):
                time.sleep(option(request, "delay", 0))
                yield words(self, f"item {i}")
        finally:
            note(f"finally {request.id}")


class Stubborn(MLModel):
    """Swallows every cancel."""

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        request = await anext(payloads)
        note(f"start {request.id}")
        for i in range(10**6):
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                note(f"swallowed {request.id}")
            try:
                yield words(self, f"item {i}")
            except GeneratorExit:  # it was not awaiting when its client left
                note(f"swallowed {request.id}")
                raise


class Failing(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        mode = option(payload, "mode", "value")
        if mode in ERRORS:
            raise ERRORS[mode](CANARY)
        if mode == "model":
            raise ModelError("no tea today", status_code=418)
        if mode == "say":
            raise ModelError(option(payload, "words", "") * option(payload, "times", 1))
        if mode == "lone surrogate":
            raise ModelError("half a pair: \ud800")
        if mode == "no text":
            raise ModelError(5)
        if mode == "cancelled":
            raise asyncio.CancelledError
        return OUTPUTS[mode](self)


class BlockingFailing(MLModel):
    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        raise ERRORS[option(payload, "mode", "value")](CANARY)


ERRORS = {
    "value": ValueError,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "memory": MemoryError,
    "recursion": RecursionError,
    "stop": StopIteration,
    "stop_async": StopAsyncIteration,
}


def output(**changed) -> ResponseOutput:
    fields = {"name": "out", "shape": [2], "datatype": "FP32", "data": [1.0, 2.0]}
    return ResponseOutput(**{**fields, **changed})


def answer(model: MLModel, *outputs) -> InferenceResponse:
    return InferenceResponse.model_construct(model_name=model.name, outputs=list(outputs))


OUTPUTS = {
    "none": lambda model: None,
    "type": lambda model: {"outputs": []},
    "count": lambda model: answer(model, output(data=[1.0])),
    "value_type": lambda model: answer(model, output(data=["a", "b"])),
    "datatype": lambda model: answer(
        model, ResponseOutput.model_construct(name="out", shape=[1], datatype="FP31", data=[1])
    ),
    "negative": lambda model: answer(model, output(shape=[-1, 2])),
    "range": lambda model: answer(model, output(datatype="INT8", data=[1, 300])),
    "twice": lambda model: answer(model, output(), output()),
    "not_output": lambda model: answer(model, {"name": "out"}),
    "array": lambda model: answer(model, output(datatype="INT8", data=np.array([1.5, 2.5]))),
    "nan": lambda model: answer(model, output(data=[float("nan"), float("inf")])),
    "not_utf8": lambda model: answer(model, output(datatype="BYTES", shape=[1], data=[b"\xff\xfe"])),
    "surrogate": lambda model: answer(model, output(datatype="BYTES", shape=[1], data=["\ud800"])),
    "object_parameter": lambda model: answer(model, output(parameters=Parameters(thing=object()))),
}


class Mirror(MLModel):
    """Answers the request's own parameters and, on request, headers."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        response = words(self, str(payload.parameters.headers.get("x-custom", "")))
        response.parameters = payload.parameters
        if option(payload, "set_header", False):
            response.parameters = Parameters(
                headers={"x-from-model": "yes", "content-length": "1", "x-bad": "a\r\nb: c"}
            )
        return response


class Collecting(MLModel):
    """Many requests, one response."""

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        texts = [StringCodec.decode_input(payload.inputs[0])[0] async for payload in payloads]
        yield words(self, " ".join(texts))


class Both(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return words(self, "predicted")

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for payload in payloads:
            yield words(self, f"streamed {payload.id}")


class Arrays(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        arrays = [NumpyCodec.decode_input(tensor) for tensor in payload.inputs]
        outputs = [
            ResponseOutput(name=tensor.name, shape=list(array.shape), datatype=tensor.datatype, data=array)
            for tensor, array in zip(payload.inputs, arrays, strict=True)
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)


def words(model: MLModel, text: str) -> InferenceResponse:
    return InferenceResponse(
        model_name=model.name,
        model_version=model.version,
        outputs=[StringCodec.encode_output("output", [text])],
    )


class BadEnding(MLModel):
    """Its `finally` raises, or takes a minute."""

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        request = await anext(payloads)
        try:
            for _ in range(10**6):
                yield words(self, "item")
                await asyncio.sleep(0.01)
        finally:
            note(f"ending {request.id}")
            if option(request, "slow", 0):
                await asyncio.sleep(60)
            raise ValueError(CANARY)


class Deadly(MLModel):
    """Ends its process, or hangs in it."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        mode = option(payload, "mode", "none")
        note(f"start {payload.id}")
        if mode == "exit":
            os._exit(3)
        if mode == "segfault":
            ctypes.string_at(0)
        if mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "block":
            time.sleep(600)  # noqa: ASYNC251
        if mode == "close":
            os.closerange(3, 200)
        if mode == "flood":
            for _ in range(100):
                os.write(1, b"." * 2**20)
        if mode == "memory":
            resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
            bytearray(2**40)
        if mode == "child":
            child = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220
            return words(self, str(child.pid))
        return words(self, mode)


class Hung(MLModel):
    """Blocks a thread for good."""

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        note(f"start {payload.id}")
        if option(payload, "mode", "hang") == "hang":
            time.sleep(600)
        return words(self, "awake")


class Where(MLModel):
    """Answers which process and device it runs on."""

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        note(f"start {payload.id}")
        time.sleep(option(payload, "seconds", 0))
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return InferenceResponse(
            model_name=self.name,
            outputs=[StringCodec.encode_output("where", [str(os.getpid()), device, sys.prefix])],
        )


class Patient(MLModel):
    """Works for long without a pause, and looks whether anybody still waits."""

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        context = request_context()
        note(f"start {payload.id} {context.time_remaining is not None}")
        until = time.monotonic() + 30
        while time.monotonic() < until and not context.cancelled:
            time.sleep(0.005)
        note(f"stopped {payload.id}")
        return words(self, "stopped")


class Moody(MLModel):
    """Says of itself whether it is ready."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.ready = False
        return words(self, "not any more")


class Undescribed(Echo):
    """Cannot say what it is."""

    async def metadata(self) -> None:
        mode = self.settings.parameters.mode
        if mode == "none":
            return
        raise {**ERRORS, "cancelled": asyncio.CancelledError}[mode](CANARY)


class Headed(MLModel):
    """Answers with the headers it is given, as JSON."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        response = words(self, "headed")
        response.parameters = Parameters(headers=json.loads(option(payload, "set", "{}")))
        return response
