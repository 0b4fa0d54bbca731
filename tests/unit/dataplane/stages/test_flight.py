"""One computation for several readers: each at its own pace, and the model at theirs."""

import asyncio

import numpy as np
import pytest

from inferstream.concurrency.scope import ClientLeft
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.stages import flight as module
from inferstream.dataplane.stages.flight import Flight
from inferstream.dataplane.stages.store import Store
from inferstream.telemetry.stages import StoreMeters
from inferstream.types import InferenceRequest, InferenceResponse, ResponseOutput


def response(number: int, size: int = 1) -> InferenceResponse:
    data = np.full(size, number, np.float32)
    output = ResponseOutput(name="y", shape=[size], datatype="FP32", data=data)
    return InferenceResponse(model_name="m", id="the model's", outputs=[output])


def number_of(item: InferenceResponse) -> float:
    return float(item.outputs[0].data.flat()[0])


class Computation:
    """A model that makes responses as they are wanted."""

    def __init__(self, count: int, room: int = 10**6, size: int = 1) -> None:
        self.made = 0
        self.meters = StoreMeters()
        call = Call(Operation.STREAM, "m", None, InferenceRequest.of([]), {})
        self.flight = Flight(Store(10, room, float("inf"), lambda: 0.0, self.meters), call)
        self.flight.task = asyncio.create_task(self._run(count, size))
        self.flight.task.add_done_callback(self._landed)

    async def _run(self, count: int, size: int) -> None:
        for number in range(count):
            self.flight.add(response(number, size))
            self.made += 1
            await self.flight.wait_for_reader()

    def _landed(self, task: "asyncio.Task[None]") -> None:
        self.flight.end(ClientLeft() if task.cancelled() else task.exception())


async def test_model_waits_for_a_reader() -> None:
    computation = Computation(5)
    reply = await computation.flight.reply("a")
    assert computation.made == 1
    async with reply:
        assert [number_of(item) async for item in reply] == [0, 1, 2, 3, 4]
    assert computation.made == 5


async def test_each_reader_has_its_own_id_and_pace() -> None:
    computation = Computation(4)
    slow, fast = await computation.flight.reply("slow"), await computation.flight.reply("fast")
    async with slow, fast:
        await anext(fast)  # type: ignore[call-overload]
        await anext(fast)  # type: ignore[call-overload]
        late = await computation.flight.reply("late")
        for reply, id, seen in ((fast, "fast", 2), (late, "late", 0), (slow, "slow", 0)):
            async with reply:
                items = [item async for item in reply]
            assert [(number_of(item), item.id) for item in items] == [(n, id) for n in range(seen, 4)]


async def test_oversized_stream_waits_for_its_slowest_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WINDOW", 3000)
    computation = Computation(20, room=4000, size=200)
    slow, fast = await computation.flight.reply("slow"), await computation.flight.reply("fast")
    async with slow, fast:
        ahead = asyncio.ensure_future(anext(fast))  # type: ignore[call-overload]
        for _ in range(100):
            await asyncio.sleep(0)
            if ahead.done():
                ahead = asyncio.ensure_future(anext(fast))  # type: ignore[call-overload]
        assert not ahead.done()
        held_back = computation.made
        assert held_back < 20
        assert not computation.flight.retained
        assert computation.meters.bytes == 0
        for _ in range(held_back):
            await anext(slow)  # type: ignore[call-overload]
        await ahead
        ahead.cancel()


async def test_computation_ends_when_last_reader_leaves() -> None:
    computation = Computation(9)
    task = computation.flight.task
    one, other = await computation.flight.reply("one"), await computation.flight.reply("other")
    async with one:
        pass
    assert task is not None
    assert not task.cancelling()
    async with other:
        pass
    await asyncio.wait([task])
    assert task.cancelled()
    assert not computation.flight.readers
