"""Which stages a model's settings ask for."""

import asyncio

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.pipeline import Pipeline
from inferstream.telemetry.metrics import ModelMeters
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput


class AttachedSlot(MLModel):
    """Answers when it is let."""

    async def predict(self, payload):
        self.running += 1
        self.most = max(self.most, self.running)
        await self.gate.wait()
        self.running -= 1
        return InferenceResponse(model_name="held", outputs=[])


class Streams(MLModel):
    async def predict_stream(self, payloads):
        yield InferenceResponse(model_name="streams", outputs=[])


def built(implementation: type[MLModel], **settings) -> tuple[MLModel, Pipeline, ModelMeters]:
    model = implementation(ModelSettings(implementation=implementation, name="m", **settings))
    meters = ModelMeters("m", None)
    return model, Pipeline(Local(model), meters, None), meters


def test_without_settings_there_is_no_batching() -> None:
    assert built(AttachedSlot)[2].batches is None
    assert built(AttachedSlot, max_batch_size=1, max_batch_time=1)[2].batches is None
    assert built(AttachedSlot, max_batch_size=2, max_batch_time=1)[2].batches is not None


@pytest.mark.parametrize(
    ("implementation", "settings", "why"),
    [
        (AttachedSlot, {"max_batch_size": 8}, "no effect without max_batch_time"),
        (Streams, {"max_batch_size": 8, "max_batch_time": 1}, "the model only streams"),
    ],
)
def test_batching_that_cannot_be_is_warned_of(
    implementation: type[MLModel], settings: dict, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert built(implementation, **settings)[2].batches is None
    assert why in caplog.text


async def test_streams_and_batches_together_stay_within_the_models_slots() -> None:
    model, pipeline, _ = built(AttachedSlot, max_batch_size=4, max_batch_time=60, max_concurrency=2)
    model.running = model.most = 0
    model.gate = asyncio.Event()

    async def ask(operation: Operation) -> None:
        tensor = RequestInput(name="x", shape=[1], datatype="FP32", data=[1.0])
        call = Call(operation, "m", None, InferenceRequest(id="i", inputs=[tensor]), {})
        async with await pipeline.handler(call) as reply:
            async for _ in reply:
                pass

    asking = [asyncio.create_task(ask(operation)) for operation in Operation for _ in range(4)]
    while model.running < 2:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    model.gate.set()
    await asyncio.gather(*asking)
    assert model.most == 2
