"""Models of the soak, copied into the folder that the server serves."""

import asyncio
import ctypes
import gc
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from types import TracebackType

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput


def option(payload: InferenceRequest, name: str, default: float) -> float:
    return payload.parameters.get(name, default) if payload.parameters else default


def word(payload: InferenceRequest, number: int) -> str:
    return f"#{number} {'x' * option(payload, 'size', 10)} "


def trim() -> None:
    """Collect garbage, and give what is free back to the system: how much stays depends on how busy it was."""
    gc.unfreeze()  # what lived when a model was last unloaded, which the server excludes from collections
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


class Words(MLModel):
    """As many numbered words as asked for, whole or one by one. The tensor `x` comes back as it was."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        if option(payload, "trim", 0):
            trim()
            gc.freeze()
        await asyncio.sleep(option(payload, "seconds", 0))
        words = "".join(word(payload, number) for number in range(option(payload, "items", 5)))
        outputs = [
            ResponseOutput(name="x", shape=tensor.shape, datatype=tensor.datatype, data=tensor.data)
            for tensor in payload.inputs
            if tensor.name == "x"
        ]
        outputs.append(StringCodec.encode_output("text", [words]))
        return InferenceResponse(
            model_name=self.name, outputs=outputs, parameters=Parameters(pid=os.getpid())
        )

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        async for payload in payloads:
            for number in range(option(payload, "items", 5)):
                yield word(payload, number)
                await asyncio.sleep(option(payload, "seconds", 0))


class Census(MLModel):
    """What the server's process holds: tasks of every event loop, tracebacks, and objects of each class of ours."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        trim()
        counts: Counter[str] = Counter(tasks=0, tracebacks=0)
        for each in gc.get_objects():
            kind = type(each)
            counts["tasks"] += issubclass(kind, asyncio.Task) and not each.done()
            counts["tracebacks"] += kind is TracebackType
            if str(kind.__module__).startswith("inferstream."):
                counts[f"{kind.__module__}.{kind.__qualname__}"] += 1
        gc.freeze()
        outputs = [StringCodec.encode_output("counts", [json.dumps(counts)])]
        return InferenceResponse(model_name=self.name, outputs=outputs)
