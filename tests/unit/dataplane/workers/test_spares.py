"""Spare workers: there are as many as there should be again, whatever becomes of them."""

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from inferstream.dataplane.workers.spares import Spares
from inferstream.processes.spawning import Program
from inferstream.settings import Settings

PROGRAM = Program("worker.py", "python", {})

pids = count(1)


class FakeProcess:
    refusals = 0
    """Starts that fail from now on."""

    how = "ended with exit code 1"

    def __init__(self, *_: object) -> None:
        if FakeProcess.refusals:
            FakeProcess.refusals -= 1
            raise OSError(11, "Resource temporarily unavailable")
        self.pid = next(pids)
        self.ended = asyncio.Event()

    async def stop(self, grace: float) -> bool:
        self.ended.set()
        return True


@pytest.fixture
def spares(monkeypatch: pytest.MonkeyPatch) -> Spares:
    monkeypatch.setattr("inferstream.dataplane.workers.spares.WorkerProcess", FakeProcess)
    monkeypatch.setattr("inferstream.dataplane.workers.spares.REFILL", 0.001)
    monkeypatch.setattr(FakeProcess, "refusals", 0)
    return Spares(Settings(spare_workers=2), PROGRAM)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.001)


async def test_spare_process_is_replaced_after_use(spares: Spares) -> None:
    spares.fill()
    first, second = spares.processes
    assert spares.take(Program("worker.py", "another", {})) is None
    taken = spares.take(PROGRAM)
    assert taken is not None
    assert taken.pid == first
    await until(lambda: len(spares.processes) == 2)
    assert spares.processes[0] == second
    taken.ended.set()
    assert await spares.stop(1)
    assert spares.processes == []


async def test_failed_start_is_retried(spares: Spares) -> None:
    FakeProcess.refusals = 4
    spares.fill()
    assert spares.processes == []
    await until(lambda: len(spares.processes) == 2)
    await spares.stop(1)


async def test_spare_process_that_exits_is_replaced(spares: Spares) -> None:
    spares.fill()
    first, second = spares._waiting
    first.ended.set()
    await until(lambda: len(spares.processes) == 2 and first.pid not in spares.processes)
    second.ended.set()
    taken = spares.take(PROGRAM)
    assert taken is not None
    assert taken not in (first, second), "one that has ended is not taken"
    await spares.stop(1)


async def test_load_without_spare_requests_new_ones(spares: Spares) -> None:
    assert spares.take(PROGRAM) is None
    await until(lambda: len(spares.processes) == 2)
    await spares.stop(1)
