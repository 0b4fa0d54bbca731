"""Copies of calls for a shadow: what begins them, and what they may cost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import numpy as np
import pytest

from inferstream.codecs import NumpyCodec
from inferstream.dataplane.call import CALL_OF_MODEL, Call, Operation
from inferstream.dataplane.call_values import inherit_values
from inferstream.dataplane.first_calls import NotLoaded
from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.dataplane.shadows import Shadows
from inferstream.dataplane.shares import Shares, share_of
from inferstream.dataplane.stages.shadow import MOST_LOGGED, ShadowStage
from inferstream.errors import InferenceFailed
from inferstream.plugins.traffic.meters import ShadowMeters
from inferstream.settings import Settings
from inferstream.settings.traffic import Shadow
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput


def numbers(*values: float, name: str = "y", dtype: str = "float32") -> InferenceResponse:
    outputs = [NumpyCodec.encode_output(name, np.array(values, dtype=dtype))]
    return InferenceResponse(model_name="m", outputs=outputs)


class Trial:
    """A model and its shadow, each a function of the request."""

    def __init__(self, shadow: object, **settings: object) -> None:
        self.meters = ShadowMeters()
        self.copies: list[Call] = []
        self.shadow = shadow
        self.ended = asyncio.Event()
        shadows = Shadows(lambda name, version: self._opened, Settings(**settings))
        self.shadows = shadows
        self.stage = ShadowStage(self._answer, Shadow(to="2"), shadows, self.meters, Shares)

    async def _answer(self, call: Call) -> Reply:
        if call.request.id == "wrong":
            raise InferenceFailed("no")
        if call.operation is Operation.STREAM:
            return StreamReply(None, _stream())
        return Reply(numbers(1))

    def _opened(self, call: Call) -> Awaitable[Reply]:
        self.copies.append(call)
        call.task = asyncio.current_task()
        return self.shadow(call)

    async def call(
        self, operation: Operation = Operation.INFER, id: str = "r", dialect: str = "rest"
    ) -> list:
        tensor = RequestInput(name="x", datatype="INT64", shape=[1], data=[1])
        call = Call(operation, "m", "1", InferenceRequest(id=id, inputs=[tensor]), {}, dialect=dialect)
        async with await self.stage(call) as reply:
            return [response async for response in reply]

    async def settled(self) -> None:
        async with asyncio.timeout(10):
            await self.shadows._tasks.all_ended()


async def _stream() -> AsyncIterator[InferenceResponse]:
    yield numbers(1)
    yield numbers(2)


async def equal(call: Call) -> Reply:
    return StreamReply(None, _stream()) if call.operation is Operation.STREAM else Reply(numbers(1))


async def other(call: Call) -> Reply:
    return Reply(numbers(7))


async def failing(call: Call) -> Reply:
    raise InferenceFailed("broken")


async def hanging(call: Call) -> Reply:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if call.over(asyncio.CancelledError()):
            raise call.taken() from None
        raise
    raise AssertionError


@pytest.mark.parametrize("operation", list(Operation))
async def test_a_copy_of_another_version_is_compared(operation: Operation) -> None:
    trial = Trial(equal)
    assert len(await trial.call(operation)) == (2 if operation is Operation.STREAM else 1)
    await trial.settled()
    assert (trial.meters.equal, trial.meters.different) == (1, 0)
    [copy] = trial.copies
    assert (copy.version, copy.dialect, copy.operation, copy.request.id) == ("2", "shadow", operation, "r")


async def test_the_copy_has_a_request_of_its_own() -> None:
    trial = Trial(equal)
    await trial.call()
    await trial.settled()
    assert trial.copies[0].request.inputs[0].data.root == [1]


async def test_differences_are_counted_and_the_first_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(other)
    for _ in range(MOST_LOGGED + 2):
        await trial.call()
        await trial.settled()
    assert trial.meters.different == MOST_LOGGED + 2
    assert len(caplog.records) == MOST_LOGGED
    assert 'shadow 2 of model m, request r: output "y": 1 of 1 numbers' in caplog.text


async def test_a_shadow_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(failing)
    assert len(await trial.call()) == 1
    await trial.settled()
    assert trial.meters.failed == 1
    assert "it failed: broken" in caplog.text


async def test_copies_beyond_the_most_are_dropped_and_end_with_the_server() -> None:
    trial = Trial(hanging, shadow_max_in_flight=2)
    for _ in range(5):
        assert len(await trial.call()) == 1
    assert trial.meters.dropped == 3
    while len(trial.copies) < 2:
        await asyncio.sleep(0)
    assert all(copy.deadline is not None for copy in trial.copies)
    trial.shadows.end()
    await trial.settled()
    assert trial.meters.failed == 2
    assert [trial.shadows.reserve() for _ in range(3)] == [True, True, False]


async def unloaded(call: Call) -> Reply:
    raise NotLoaded(("m", "2"))


async def test_a_version_that_is_not_loaded_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(unloaded)
    await trial.call()
    await trial.settled()
    assert trial.meters.failed == 1
    assert "copies load nothing" in caplog.text


async def test_a_place_is_free_again_when_there_is_no_copy() -> None:
    trial = Trial(equal, shadow_max_in_flight=1)
    with pytest.raises(InferenceFailed):
        await trial.call(id="wrong")
    call = Call(Operation.STREAM, "m", "1", InferenceRequest(id="r", inputs=[]), {}, dialect="rest")
    async with await trial.stage(call) as reply:
        assert not trial.shadows.reserve()
        await anext(aiter(reply))
    assert trial.shadows.reserve()


async def test_calls_that_fail_and_copies_themselves_have_no_copy() -> None:
    trial = Trial(equal)
    with pytest.raises(InferenceFailed):
        await trial.call(id="wrong")
    await trial.call(dialect="shadow")
    await trial.settled()
    assert trial.copies == []


async def test_calls_by_model_code_in_a_copy_have_no_copy() -> None:
    trial = Trial(equal)
    await trial.call()
    await trial.settled()
    [copy] = trial.copies
    inner = Call(Operation.INFER, "m", "1", InferenceRequest(inputs=[]), {}, dialect=CALL_OF_MODEL)
    inherit_values(inner, copy)
    assert inner.dialect == "shadow"
    async with await trial.stage(inner):
        pass
    await trial.settled()
    assert trial.copies == [copy]


async def test_a_stream_that_its_reader_leaves_has_no_copy() -> None:
    trial = Trial(equal)
    call = Call(Operation.STREAM, "m", "1", InferenceRequest(id="r", inputs=[]), {}, dialect="rest")
    async with await trial.stage(call) as reply:
        await anext(aiter(reply))
    await trial.settled()
    assert trial.copies == []


async def test_copies_are_one_principal_that_is_charged_with_its_tokens() -> None:
    trial, shares = Trial(equal), Shares()
    await trial.call(Operation.STREAM)
    [running] = trial.shadows._calls
    share_of(running).enter(shares, 5)
    share_of(running).begin()
    await trial.settled()
    assert share_of(running).name == "\0shadow"
    assert shares.flow("\0shadow", 5).used == 2
