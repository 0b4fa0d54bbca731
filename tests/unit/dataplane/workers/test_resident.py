"""Whether a model that may leave memory is ready, and which calls wait for it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream import MLModel
from inferstream.dataplane.residency import Residency
from inferstream.dataplane.workers.pool import Group
from inferstream.dataplane.workers.resident import ResidentPool
from inferstream.errors import ModelNotReady
from inferstream.handlers import HttpRequest, HttpResponse
from inferstream.settings import ModelSettings
from inferstream.signature import SIGNATURE, Signature
from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import WorkerMeters


class OneWorker:
    """The worker of the model with instance 1. `models` is what it reports."""

    def __init__(self) -> None:
        self.models: dict[int, bool] = {}
        self.active = 0
        self.group = Group(WorkerMeters(MetricFiles(None)))
        slot: Any = SimpleNamespace(process=self)
        self.group._slots = [slot]
        self.instance = 1
        self.loaded: Any = SimpleNamespace(
            strictness="auto",
            signature=SIGNATURE.dump_json(Signature()),
            capabilities=None,
            routes=[],
            slots=1,
            metadata=None,
            configuration={},
        )

    def processes(self) -> list[int]:
        return []

    async def start(self) -> None:
        self.models[1] = True

    async def stop(self) -> None:
        self.models.clear()

    async def call_route(self, instance: int, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, [], b"answer")


@pytest.fixture
def worker() -> OneWorker:
    return OneWorker()


@pytest.fixture
async def pool(worker: OneWorker) -> ResidentPool:
    residency = Residency({}, None, lambda processes: {})
    settings = ModelSettings(name="m", implementation=MLModel)
    resident = residency.add(("m", None), worker, pinned=False)
    own: Any = worker
    group: Any = worker.group
    made = ResidentPool(settings, group, own, None, residency, resident)
    await resident.enter()
    resident.leave()
    return made


REQUEST: Any = None


async def test_reported_unready_model_is_not_ready_while_resident(
    worker: OneWorker, pool: ResidentPool
) -> None:
    assert pool.ready
    worker.models[1] = False
    assert not pool.ready
    with pytest.raises(ModelNotReady):
        await pool.call_route(REQUEST)
    assert pool.resident.movable, "the refused call is no use of it"
    await pool._residency.relieve()
    assert pool.ready, "a call would load it"
    assert (await pool.call_route(REQUEST)).body == b"answer"


async def test_call_waits_for_next_worker_and_finds_it_not_ready(
    worker: OneWorker, pool: ResidentPool
) -> None:
    worker.models.clear()  # it has died
    assert pool.ready
    call = asyncio.create_task(pool.call_route(REQUEST))
    while not pool.resident.users:
        await asyncio.sleep(0)
    worker.models[1] = False
    worker.group.resize(1, 1)
    with pytest.raises(ModelNotReady):
        await call
