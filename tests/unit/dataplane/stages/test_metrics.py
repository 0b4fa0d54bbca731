"""What counts as an execution of a model, and with how many rows."""

import asyncio
from math import prod
from time import perf_counter

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.pipeline import build_pipeline, build_shared_objects
from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.dataplane.slots import Slots
from inferstream.dataplane.stages.base import Shared
from inferstream.dataplane.stages.limits import Limits
from inferstream.dataplane.stages.metrics import Compute, MeteredStream, Metrics
from inferstream.settings import Settings
from inferstream.telemetry.families import families
from inferstream.telemetry.metrics import Meters
from inferstream.telemetry.model_meters import ModelMeters
from inferstream.telemetry.stages import SIZES, ComputeMeters
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput

RESPONSE = InferenceResponse(model_name="m", outputs=[])


def asked(*shape: int) -> Call:
    tensor = RequestInput(name="x", shape=shape, datatype="BOOL", data=[True] * prod(shape))
    return Call(Operation.INFER, "m", None, InferenceRequest(inputs=[tensor]), {})


class Sums(MLModel):
    async def predict(self, payload):
        return RESPONSE


async def whole(call: Call) -> Reply:
    return Reply(RESPONSE)


async def failing(call: Call) -> Reply:
    raise ValueError


async def streaming(call: Call) -> Reply:
    async def rest():
        yield RESPONSE

    return StreamReply(RESPONSE, rest())


@pytest.mark.parametrize(
    ("rows", "shape", "expected"), [(True, (3, 2), 3), (False, (3, 2), 1), (True, (), 1), (True, (1,), 1)]
)
async def test_rows_are_counted_if_requests_are_batched(rows: bool, shape: tuple, expected: int) -> None:
    meters = ComputeMeters()
    assert (await Compute(whole, meters, rows)(asked(*shape))).first is RESPONSE
    assert meters.inferences == expected
    assert [(size, count) for size, (count, _) in meters.sizes.items()] == [(expected, 1)]


async def test_failed_call_is_not_an_execution() -> None:
    meters = ComputeMeters()
    with pytest.raises(ValueError):
        await Compute(failing, meters, True)(asked(1))
    assert (meters.inferences, meters.sizes) == (0, {})


async def test_stream_is_one_execution_until_its_end() -> None:
    meters = ComputeMeters()
    reply = await Compute(streaming, meters, True)(asked(1))
    async with reply:
        assert not meters.sizes
        assert len([response async for response in reply]) == 2
    assert meters.sizes[1][0] == 1
    async with await Compute(streaming, meters, True)(asked(1)):
        pass  # its reader leaves
    assert meters.sizes[1][0] == 1


def test_batch_size_labels_are_bounded() -> None:
    meters = ComputeMeters()
    for rows in range(1, 2 * SIZES):
        meters.count_execution(rows, 0.0)
    assert len(meters.sizes) == SIZES + 1
    assert sum(count for count, _ in meters.sizes.values()) == 2 * SIZES - 1
    _, seconds = families(ComputeMeters, [(["m", ""], meters)])
    assert {sample.labels["batch_size"] for sample in seconds.samples} == {
        *map(str, range(1, SIZES + 1)),
        "other",
    }


def test_successful_calls_count_as_executions_without_batching() -> None:
    meters = ModelMeters("m", None)
    assert not meters.executions().sizes
    meters.durations["success"].observe(2.0)
    meters.durations["success"].observe(1.0)
    meters.waited = 0.5
    MeteredStream(meters, perf_counter(), waited=4.0).end(RuntimeError())
    assert list(meters.durations) == ["success", "internal"]
    assert meters.executions().sizes == {1: [2, 2.5]}
    assert meters.executions().inferences == 2
    meters.count_executions_separately().count_execution(1, 0.0)  # the model is loaded anew, with batches
    assert meters.executions().inferences == 3
    assert meters.count_executions_separately() is meters.executions()


async def test_queue_time_is_not_compute_time() -> None:
    calls = [asked(1) for _ in range(3)]
    meters = ModelMeters("m", None)

    async def turns(call: Call) -> Reply:
        await asyncio.sleep(0)
        return Reply(RESPONSE)

    handler = Metrics(Limits(turns, Slots(1), 8, 1.0, meters.queue), meters)
    await asyncio.gather(*map(handler, calls))
    assert [call.waited > 0 for call in calls] == [False, True, True]
    assert meters.waited == pytest.approx(sum(call.waited for call in calls))
    assert meters.waited == pytest.approx(meters.queue.waits.total)


async def test_executions_are_counted_separately_if_calls_are_batched() -> None:
    plain, batched = build_shared_objects(Settings(), Meters()), build_shared_objects(Settings(), Meters())

    async def run(shared: Shared, **settings: float) -> ComputeMeters:
        model = Sums(ModelSettings(implementation=Sums, name="m", **settings))
        await build_pipeline(Local(model), shared).handler(asked(2))
        return shared.meters.of("m", None).executions()

    assert (await run(plain)).inferences == 1
    assert (await run(batched, max_batch_size=2, max_batch_time=1)).inferences == 2
    assert (await run(batched)).inferences == 3
