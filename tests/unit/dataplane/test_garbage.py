"""However a call ends, nothing of it is left to the garbage collector, whose looks at all there is stop the loop."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.pipeline import build_pipeline, build_shared_objects
from inferstream.dataplane.reply import Reply
from inferstream.dataplane.stages.base import Pipeline
from inferstream.errors import InferstreamError
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput


class Ends(MLModel):
    """Answers, raises or takes its time, as the request's id says."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        if payload.id == "raises":
            raise ValueError("no")
        if payload.id == "lasts":
            await asyncio.sleep(60)
        return InferenceResponse(model_name=self.name, outputs=[])

    async def predict_stream(self, payloads):
        request = await anext(payloads)
        yield InferenceResponse(model_name=self.name, outputs=[])
        yield await self.predict(request)


@pytest.fixture
def pipeline() -> Pipeline:
    settings = ModelSettings(implementation=Ends, name="m", max_concurrency=1, max_queue=1)
    return build_pipeline(Local(Ends(settings)), build_shared_objects(Settings(), Meters()))


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """What the collector finds once the test's own work is done."""
    gc.disable()
    gc.freeze()  # it looks at nothing that was there before, here and later
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def ask(
    pipeline: Pipeline, operation: Operation, id: str, seconds: float | None = None, most: int = 9
) -> None:
    tensor = RequestInput(name="x", shape=[1], datatype="FP32", data=[1.0])
    request = InferenceRequest(id=id, inputs=[tensor])
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
    try:
        async with await pipeline.handler(
            Call(operation, "m", None, request, {}, deadline=deadline)
        ) as reply:
            async for _ in reply:
                most -= 1
                if not most:
                    break
    except InferstreamError:
        pass


INFER, STREAM = Operation


@pytest.mark.parametrize(
    "asked",
    [
        [(INFER, "answers")],
        [(STREAM, "answers")],
        [(INFER, "raises")],
        [(STREAM, "raises")],
        [(STREAM, "lasts", None, 1)],
        [(INFER, "lasts", 0.01)],
        [(STREAM, "lasts", 0.01)],
        [(INFER, "lasts", 0.02), (INFER, "lasts", 0.01), (INFER, "refused"), (STREAM, "refused")],
    ],
    ids=lambda asked: "-".join(f"{operation.value}-{id}" for operation, id, *_ in asked),
)
async def test_no_garbage_is_left_for_the_collector(
    pipeline: Pipeline, garbage: list[object], asked: list[tuple]
) -> None:
    await asyncio.gather(*(ask(pipeline, *one) for one in asked))
    await asyncio.sleep(0)
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    ours = (Call, Reply, InferenceRequest, InferenceResponse, InferstreamError)
    assert Counter(type(left) for left in garbage if isinstance(left, ours)) == {}
