"""What the processes of a group are started with."""

from typing import Any, cast

import pytest

from inferstream.dataplane.access import Authority
from inferstream.dataplane.workers.placement import Placement, Placements
from inferstream.processes.spawning import Program
from inferstream.settings import Settings
from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import WorkerMeters


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)


def programs_of(workers: int) -> list[Program]:
    meters = WorkerMeters(MetricFiles(None))
    settings = Settings(metrics_endpoint=None)
    placements = Placements(settings, Authority(settings), meters, cast(Any, None), "worker.py")
    return placements._programs(Placement(workers, None, None, ()))


@pytest.mark.parametrize(("workers", "share"), [(1, "8"), (3, "2"), (16, "1")])
def test_workers_share_cpu_cores(workers: int, share: str) -> None:
    programs = programs_of(workers)
    assert [program.variables["OMP_NUM_THREADS"] for program in programs] == [share] * workers


def test_user_thread_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "OMP_NUM_THREADS" not in programs_of(2)[0].variables
