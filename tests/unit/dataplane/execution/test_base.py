"""What a model can do, as its author wrote it, told to people and to another process."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from inferstream import MLModel, ModelSettings, StepModel
from inferstream.dataplane.execution.base import Capabilities
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.workers.frames import Loaded
from inferstream.functions.function import Function
from inferstream.functions.model import model_class


class Predicts(MLModel):
    async def predict(self, payload): ...


class Streams(MLModel):
    async def predict_stream(self, payloads):
        yield


class Both(Predicts, Streams):
    pass


class Steps(StepModel):
    def admit(self, request): ...

    def step(self, states): ...


class PredictsAndSteps(Predicts, Steps):
    pass


async def total(xs: AsyncIterator[int]) -> int:
    return sum([x async for x in xs])


async def running(xs: AsyncIterator[int]) -> AsyncIterator[int]:
    async for x in xs:
        yield x


@pytest.mark.parametrize(
    ("implementation", "capabilities", "text"),
    [
        (MLModel, (True, False, False), "predict"),
        (Predicts, (True, False, False), "predict"),
        (Streams, (False, True, False), "stream"),
        (Both, (True, True, False), "predict, stream"),
        (Steps, (False, True, True), "steps"),
        (PredictsAndSteps, (True, True, True), "predict, steps"),
        (model_class(Function(total, "total")), (False, True, False, True), "predict"),
        (model_class(Function(running, "running")), (False, True, False), "stream"),
    ],
)
def test_model_capabilities_are_detected(
    implementation: type[MLModel], capabilities: tuple[bool, ...], text: str
) -> None:
    found = Local(implementation(ModelSettings(implementation=implementation, name="m"))).capabilities
    assert found == Capabilities(*capabilities)
    assert str(found) == text


def test_worker_sends_capabilities_as_value() -> None:
    loaded = Loaded(1, b"{}", Capabilities(False, True, True, True), 1, [], "declared")
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(loaded), type=Loaded).capabilities
    assert type(told) is Capabilities
    assert told.steps
    assert told.gathers
    assert not told.predict
