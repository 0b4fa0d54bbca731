"""Workers that a front end is attached to."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import msgspec
import pytest

from inferstream.dataplane.workers.call_counts import WorkerLoads, create_loads
from inferstream.dataplane.workers.frames import Readiness
from inferstream.processes import shared_memory
from inferstream.processes.frames import Frame
from inferstream.server.frontends import frames
from inferstream.server.frontends.workers import AttachedGroup, AttachedWorker, Loading
from inferstream.settings import Settings
from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import WorkerMeters

NUMBER, GROUP, PID, INSTANCE = 3, 1, 77, 5


class Attached:
    """A front end with one worker, whose side of the link the test holds."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        memory = create_loads(2)
        loads = WorkerLoads(memory, 1, 2)
        os.close(memory)
        self.loading = Loading(Settings(), (1, 2), WorkerMeters(MetricFiles(None)), self.sent.append, loads)
        end, self.theirs = socket.socketpair()
        message = msgspec.msgpack.encode(frames.WorkerConnection(NUMBER, GROUP, PID))
        with shared_memory.create_memory() as requests, shared_memory.create_memory() as responses:
            self.loading.attach(message, end, requests, responses)

    @property
    def worker(self) -> AttachedWorker:
        return self.loading._workers[NUMBER]

    @property
    def group(self) -> AttachedGroup:
        return self.loading._groups[GROUP]


@pytest.fixture(name="attached")
async def _attached() -> AsyncIterator[Attached]:
    attached = Attached()
    yield attached
    attached.theirs.close()
    attached.loading.handle_loss(frames.Lost(NUMBER, "has ended", False))


async def test_front_end_waits_until_a_worker_reports_a_model(attached: Attached) -> None:
    waiting = asyncio.create_task(attached.group.wait_for_model(INSTANCE))
    await asyncio.sleep(0)
    assert not waiting.done()
    attached.worker._receive_readiness(Readiness(INSTANCE, True, 4))
    await waiting
    assert attached.group.least_busy(INSTANCE) is attached.worker


async def test_worker_to_be_replaced_is_reported_to_the_supervisor(attached: Attached) -> None:
    attached.group.replace(attached.worker, "hangs")
    assert attached.sent == [frames.Replace(NUMBER, "hangs")]


async def test_retired_worker_gets_no_new_calls_and_stays_alive(attached: Attached) -> None:
    worker = attached.worker
    worker._receive_readiness(Readiness(INSTANCE, True, 4))
    attached.loading.retire(NUMBER)
    assert attached.group.least_busy(INSTANCE) is None
    assert not worker.ended.is_set()


async def test_lost_worker_ends_once(attached: Attached) -> None:
    worker = attached.worker
    attached.loading.handle_loss(frames.Lost(NUMBER, "was killed", False))
    attached.loading.handle_loss(frames.Lost(NUMBER, "was killed", False))
    assert worker.ended.is_set()
    assert attached.group.least_busy(INSTANCE) is None
