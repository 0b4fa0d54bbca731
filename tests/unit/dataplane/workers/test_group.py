"""Workers that end with their last model."""

import asyncio
from types import SimpleNamespace
from typing import Any

from inferstream.dataplane.workers.frames import LoadInstance
from inferstream.dataplane.workers.group import WorkerGroup
from inferstream.settings import Settings
from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import WorkerMeters


async def test_workers_end_despite_hung_unload() -> None:
    ended = []

    async def unload(instance: int) -> None:
        await asyncio.Event().wait()

    async def blocked() -> bool:
        return False

    async def stop(grace: float) -> bool:
        ended.append(grace)
        return False

    group = WorkerGroup([], Settings(parallel_workers_timeout=1), WorkerMeters(MetricFiles(None)))
    process = SimpleNamespace(pid=1, unload=unload, makes_no_progress=blocked)
    slot: Any = SimpleNamespace(process=process, stop=stop)
    group._slots = [slot]
    group._models[7] = LoadInstance(7, b"", None, 1.0)
    async with asyncio.timeout(20):
        await group.sleep(7)
    assert ended == [1]
    assert not group.processes
