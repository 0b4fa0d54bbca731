"""Copies of calls for a shadow: what begins them, and what they may cost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import ClassVar

import numpy as np
import pytest

from inferstream import Application, MLModel, Settings
from inferstream.codecs import NumpyCodec
from inferstream.errors import InferenceFailed
from inferstream.ext.calls import Call, Caller, NotLoaded, Operation, Reply, ServerModels, Turns
from inferstream.plugins.traffic.meters import ShadowMeters
from inferstream.plugins.traffic.settings import Shadow
from inferstream.plugins.traffic.shadow_stage import MAX_LOGGED, ShadowStage
from inferstream.plugins.traffic.shadows import Shadows
from inferstream.types import Headers, InferenceRequest, InferenceResponse, RequestInput


def numbers(*values: float, name: str = "y", dtype: str = "float32") -> InferenceResponse:
    outputs = [NumpyCodec.encode_output(name, np.array(values, dtype=dtype))]
    return InferenceResponse(model_name="m", outputs=outputs)


class Streaming(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for _ in payloads:
            yield numbers(1)
            yield numbers(2)


@pytest.fixture(autouse=True)
async def streaming() -> AsyncIterator[None]:
    async with Application(Streaming) as application:
        Trial.models = application.models
        yield


def streamed() -> Awaitable[Reply]:
    """A stream of two responses."""
    admission = Trial.models.admit("Streaming", None, Caller(Headers([]), "test"))
    return admission.open(Operation.STREAM, InferenceRequest(inputs=[]))


class Trial:
    """A model and its shadow, each a function of the request."""

    models: ClassVar[ServerModels]
    """The models of a server, which makes the streams."""

    def __init__(self, shadow: object, turns: type[Turns] | None = None, **settings: object) -> None:
        self.meters = ShadowMeters()
        self.copies: list[Call] = []
        self.shadow = shadow
        self.ended = asyncio.Event()
        shadows = Shadows(lambda name, version: self._opened, Settings(**settings))
        self.shadows = shadows
        self.stage = ShadowStage(self._answer, Shadow(to="2"), shadows, self.meters, turns)

    async def _answer(self, call: Call) -> Reply:
        if call.request.id == "wrong":
            raise InferenceFailed("no")
        if call.operation is Operation.STREAM:
            return await streamed()
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
            await self.shadows._tasks.wait_for_all()


async def equal(call: Call) -> Reply:
    return await streamed() if call.operation is Operation.STREAM else Reply(numbers(1))


async def other(call: Call) -> Reply:
    return Reply(numbers(7))


async def failing(call: Call) -> Reply:
    raise InferenceFailed("broken")


async def hanging(call: Call) -> Reply:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if call.over(asyncio.CancelledError()):
            raise call.take_reason() from None
        raise
    raise AssertionError


@pytest.mark.parametrize("operation", list(Operation))
async def test_shadow_response_is_compared(operation: Operation) -> None:
    trial = Trial(equal)
    assert len(await trial.call(operation)) == (2 if operation is Operation.STREAM else 1)
    await trial.settled()
    assert (trial.meters.equal, trial.meters.different) == (1, 0)
    [copy] = trial.copies
    assert (copy.version, copy.dialect, copy.operation, copy.request.id) == ("2", "shadow", operation, "r")


async def test_copy_has_own_request() -> None:
    trial = Trial(equal)
    await trial.call()
    await trial.settled()
    assert trial.copies[0].request.inputs[0].data.root == [1]


async def test_differences_are_counted_and_first_ones_logged(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(other)
    for _ in range(MAX_LOGGED + 2):
        await trial.call()
        await trial.settled()
    assert trial.meters.different == MAX_LOGGED + 2
    assert len(caplog.records) == MAX_LOGGED
    assert 'shadow 2 of model m, request r: output "y": 1 of 1 numbers' in caplog.text


async def test_failing_shadow_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(failing)
    assert len(await trial.call()) == 1
    await trial.settled()
    assert trial.meters.failed == 1
    assert "it failed: broken" in caplog.text


async def test_copies_over_limit_are_dropped_and_end_with_server() -> None:
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


async def test_unloaded_version_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(unloaded)
    await trial.call()
    await trial.settled()
    assert trial.meters.failed == 1
    assert "copies load nothing" in caplog.text


async def test_slot_is_released_without_copy() -> None:
    trial = Trial(equal, shadow_max_in_flight=1)
    with pytest.raises(InferenceFailed):
        await trial.call(id="wrong")
    call = Call(Operation.STREAM, "m", "1", InferenceRequest(id="r", inputs=[]), {}, dialect="rest")
    async with await trial.stage(call) as reply:
        assert not trial.shadows.reserve()
        await anext(aiter(reply))
    assert trial.shadows.reserve()


async def test_failed_calls_and_copies_are_not_copied() -> None:
    trial = Trial(equal)
    with pytest.raises(InferenceFailed):
        await trial.call(id="wrong")
    await trial.call(dialect="shadow")
    await trial.settled()
    assert trial.copies == []


async def test_abandoned_stream_is_not_copied() -> None:
    trial = Trial(equal)
    call = Call(Operation.STREAM, "m", "1", InferenceRequest(id="r", inputs=[]), {}, dialect="rest")
    async with await trial.stage(call) as reply:
        await anext(aiter(reply))
    await trial.settled()
    assert trial.copies == []


class Charged(Turns):
    """Keeps who was charged with a call."""

    charges: ClassVar[list[tuple[Call, str]]] = []

    @staticmethod
    def charge(call: Call, name: str) -> None:
        Charged.charges.append((call, name))


async def test_copies_are_charged_to_one_principal() -> None:
    trial = Trial(equal, Charged)
    await trial.call()
    await trial.settled()
    assert Charged.charges == [(trial.copies[0], "\0shadow")]
