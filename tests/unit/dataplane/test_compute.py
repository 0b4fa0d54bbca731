"""What counts as an execution of a model, and with how many rows."""

import pytest

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.dataplane.stages.compute import Compute
from inferstream.telemetry import compute
from inferstream.telemetry.compute import SIZES, ComputeMeters
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput

RESPONSE = InferenceResponse(model_name="m", outputs=[])


def asked(*shape: int) -> Call:
    tensor = RequestInput(name="x", shape=shape, datatype="BOOL", data=[])
    return Call(Operation.INFER, "m", None, InferenceRequest(inputs=[tensor]), {})


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
async def test_rows_count_where_requests_share_batches(rows: bool, shape: tuple, expected: int) -> None:
    meters = ComputeMeters()
    assert (await Compute(whole, meters, rows)(asked(*shape))).first is RESPONSE
    assert meters.inferences == expected
    assert [(size, count) for size, (count, _) in meters.sizes.items()] == [(expected, 1)]
    assert meters.last is not None


async def test_a_failure_is_no_execution() -> None:
    meters = ComputeMeters()
    with pytest.raises(ValueError):
        await Compute(failing, meters, True)(asked(1))
    assert (meters.inferences, meters.sizes, meters.last) == (0, {}, None)


async def test_a_stream_is_one_execution_and_lasts_to_its_end() -> None:
    meters = ComputeMeters()
    reply = await Compute(streaming, meters, True)(asked(1))
    async with reply:
        assert not meters.sizes
        assert len([response async for response in reply]) == 2
    assert meters.sizes[1][0] == 1
    async with await Compute(streaming, meters, True)(asked(1)):
        pass  # its reader leaves
    assert meters.sizes[1][0] == 1


def test_clients_cannot_make_more_series_than_are_told_apart() -> None:
    meters = ComputeMeters()
    for rows in range(1, 2 * SIZES):
        meters.executed(rows, 0.0)
    assert len(meters.sizes) == SIZES + 1
    assert sum(count for count, _ in meters.sizes.values()) == 2 * SIZES - 1
    _, seconds = compute.collect([(["m", ""], meters)])
    assert {sample.labels["batch_size"] for sample in seconds.samples} == {
        *map(str, range(1, SIZES + 1)),
        "other",
    }
