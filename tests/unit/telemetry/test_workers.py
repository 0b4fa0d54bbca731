"""Meters of processes that come and go."""

import os
from typing import cast

from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import FrontEndMeters, WorkerMeters, _resident

NOBODY = 2**22 + 1
"""A number that no process has: Linux gives none above 2**22."""


class Files:
    """Notes whose metrics begin and end."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def started(self, pid: int) -> None:
        self.told.append(("started", pid))

    def ended(self, pid: int) -> None:
        self.told.append(("ended", pid))


def meters() -> tuple[WorkerMeters, Files]:
    files = Files()
    return WorkerMeters(cast(MetricFiles, files)), files


def test_a_worker_that_is_lost_is_counted_and_one_that_is_stopped_is_not() -> None:
    workers, files = meters()
    for pid in (1, 2, 3):
        workers.started(pid)
    workers.ended(1)
    workers.stopped(2)
    assert workers.series("running") == {(): 1}
    assert (workers.begun, workers.lost) == (3, 1)
    assert files.told == [*(("started", pid) for pid in (1, 2, 3)), ("ended", 1), ("ended", 2)]


def test_the_memory_is_that_of_the_processes_that_run() -> None:
    workers, _ = meters()
    assert workers.series("memory") == {(): 0}
    workers.started(NOBODY)  # it has ended, and nobody has noticed yet
    assert workers.series("memory") == {(): 0}
    workers.started(os.getpid())
    assert workers.series("memory")[()] > 2**20
    assert _resident(NOBODY) == 0


def test_the_first_front_end_serves_from_the_beginning() -> None:
    assert {family.name: family.samples[0].value for family in FrontEndMeters().collect()} == {
        "inferstream_frontends": 1,
        "inferstream_frontends_started": 0,
        "inferstream_frontends_lost": 0,
    }
