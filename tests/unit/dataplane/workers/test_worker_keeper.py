"""The place of a worker: whatever happens to its process, the next one gets every model."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from inferstream.dataplane.execution.base import Capabilities
from inferstream.dataplane.workers.frames import Loaded, LoadInstance
from inferstream.dataplane.workers.worker_keeper import WorkerKeeper
from inferstream.errors import ModelLoadFailed, WorkerLost
from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import WorkerMeters


class FakeProcess:
    """Loads models as the test says."""

    def __init__(self, pid: int, outcome: Callable[[LoadInstance], None]) -> None:
        self.pid = pid
        self.models: dict[int, bool] = {}
        self.completed = 1
        self.ended = asyncio.Event()
        self.how = "ended"
        self.halts: Iterator[bool] = repeat(False)
        self.asked: list[int] = []
        self.unloaded: list[int] = []
        self.may_load = asyncio.Event()
        self.may_load.set()
        self._outcome = outcome

    async def load(self, frame: LoadInstance) -> Loaded:
        self.asked.append(frame.instance)
        await self.may_load.wait()
        self._outcome(frame)
        self.models[frame.instance] = True
        return Loaded(frame.instance, b"", Capabilities(True, False, False), 1, [], "declared")

    async def unload(self, instance: int) -> None:
        self.unloaded.append(instance)
        self.models.pop(instance, None)

    @property
    def halted(self) -> bool:
        return next(self.halts)

    def kill(self, why: str) -> None:
        self.how = why
        self.end()

    async def stop(self, grace: float) -> None:
        self.end()

    def end(self) -> None:
        self.models.clear()
        self.ended.set()


class Place:
    """A slot with everything that it has started."""

    def __init__(self, *models: int, heartbeat: float = 0) -> None:
        self.processes: list[FakeProcess] = []
        self.outcome: Callable[[LoadInstance], None] = lambda load: None
        self.models = {instance: LoadInstance(instance, b"", None, 1) for instance in models}
        self.slot = WorkerKeeper(self._spawn, self.models, WorkerMeters(MetricFiles(None)), 1, heartbeat)

    def _spawn(self) -> FakeProcess:
        process = FakeProcess(len(self.processes) + 1, lambda load: self.outcome(load))
        self.processes.append(process)
        return process


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_process_ending_between_load_attempts_leaves_them_to_the_next() -> None:
    place = Place(1)

    def fail(load: LoadInstance) -> None:
        raise ModelLoadFailed("not now")

    place.outcome = fail
    await until(lambda: place.processes[0].asked == [1])
    place.outcome = lambda load: None
    place.processes[0].end()
    await until(lambda: len(place.processes) == 2 and place.processes[1].models)
    await place.slot.stop(1)


async def test_model_unloaded_during_reload_does_not_stay() -> None:
    place = Place(1)
    (process,) = place.processes
    process.may_load.clear()
    await until(lambda: process.asked == [1])
    del place.models[1]
    process.may_load.set()
    await until(lambda: process.unloaded == [1])
    await place.slot.stop(1)


async def test_model_that_keeps_crashing_its_worker_is_skipped() -> None:
    place = Place(1, 2)

    def crash(load: LoadInstance) -> None:
        if load.instance == 1:
            place.processes[-1].end()
            raise WorkerLost("gone")

    place.outcome = crash
    await until(lambda: len(place.processes) == 4 and place.processes[3].models == {2: True})
    await until(lambda: place.slot._catching_up.done())
    assert [process.asked for process in place.processes] == [[1], [2, 1], [2, 1], [2]]
    await place.slot.stop(1)


async def test_unstartable_process_fails_without_long_wait() -> None:
    def refuse() -> FakeProcess:
        raise PermissionError(13, "Permission denied")

    slot = WorkerKeeper(refuse, {}, WorkerMeters(MetricFiles(None)), 1, 1)
    with pytest.raises(WorkerLost, match="Permission denied"):
        await slot.running()
    await slot.stop(1)


async def test_process_missing_ten_heartbeats_is_replaced() -> None:
    place = Place(heartbeat=0.001)
    (process,) = place.processes
    beats = chain([True] * 9, [False], [True] * 9, [False], repeat(True))
    counted: list[bool] = []
    process.halts = (counted.append(halted) or halted for halted in beats)
    await until(lambda: len(place.processes) == 2)
    assert len(counted) == 30
    assert process.how == "was stopped for 0.01 s and then killed"
    await place.slot.stop(1)


async def test_disabled_heartbeats_send_no_pings() -> None:
    place = Place(heartbeat=0)
    place.processes[0].halts = iter(())
    place.processes[0].end()
    await until(lambda: len(place.processes) == 2)
    await place.slot.stop(1)
