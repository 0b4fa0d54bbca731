"""Which worker of a group gets a call."""

from types import SimpleNamespace
from typing import Any

from inferstream.dataplane.slots import Slots
from inferstream.dataplane.workers.pool import Group
from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import WorkerMeters


def slot(active: int, **models: bool) -> Any:
    loaded = {int(name[1:]): ready for name, ready in models.items()}
    return SimpleNamespace(process=SimpleNamespace(active=active, models=loaded))


def group(*slots: Any) -> Group:
    made = Group(WorkerMeters(MetricFiles(None)))
    made._slots = slots
    made.size = len(slots)
    return made


def test_least_busy_worker_with_the_model_gets_the_call() -> None:
    busy, free, other = slot(3, m1=True), slot(1, m1=True), slot(0, m2=True)
    workers = group(busy, free, other)
    assert all(workers.least_busy(1) is free.process for _ in range(4))
    assert workers.least_busy(2) is other.process


def test_equally_busy_workers_take_turns() -> None:
    slots = [slot(0, m1=True) for _ in range(3)]
    workers = group(*slots)
    chosen = [workers.least_busy(1) for _ in range(6)]
    assert {id(worker) for worker in chosen} == {id(each.process) for each in slots}
    assert chosen[:3] == chosen[3:]


def test_stopped_and_unready_workers_get_no_calls() -> None:
    workers = group(SimpleNamespace(process=None), slot(0, m1=False))
    assert workers.least_busy(1) is None
    assert not workers.ready(1)
    assert group(SimpleNamespace(process=None), slot(0, m1=True)).ready(1)


def test_worker_concurrency_is_multiplied_by_the_number_of_workers() -> None:
    workers = group(slot(0), slot(0))
    workers.sized[1] = Slots(2)
    workers.resize(1, 64)
    workers.resize(9, 64)
    assert workers.sized[1].count == 128
