"""Meters of processes that come and go."""

import os
from typing import cast

from inferstream.telemetry.files import MetricFiles
from inferstream.telemetry.workers import FrontEndMeters, WorkerMeters, _read_resident_memory

NOBODY = 2**22 + 1
"""A number that no process has: Linux gives none above 2**22."""


class Files:
    """Notes whose metrics begin and end."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def add_worker(self, pid: int) -> None:
        self.told.append(("started", pid))

    def mark_dead(self, pid: int) -> None:
        self.told.append(("ended", pid))


def meters() -> tuple[WorkerMeters, Files]:
    files = Files()
    return WorkerMeters(cast(MetricFiles, files)), files


def test_lost_workers_are_counted_and_stopped_ones_are_not() -> None:
    workers, files = meters()
    for pid in (1, 2, 3):
        workers.count_start(pid)
    workers.count_crash(1)
    workers.remove_worker(2)
    assert workers.series("running") == {(): 1}
    assert (workers.begun, workers.lost) == (3, 1)
    assert files.told == [*(("started", pid) for pid in (1, 2, 3)), ("ended", 1), ("ended", 2)]


def test_memory_covers_the_running_processes() -> None:
    workers, _ = meters()
    assert workers.series("memory") == {(): 0}
    workers.count_start(NOBODY)  # it has ended, and nobody has noticed yet
    assert workers.series("memory") == {(): 0}
    workers.count_start(os.getpid())
    assert workers.series("memory")[()] > 2**20
    assert _read_resident_memory(NOBODY) == 0


def test_first_front_end_is_counted_from_the_start() -> None:
    assert {family.name: family.samples[0].value for family in FrontEndMeters().collect()} == {
        "inferstream_frontends": 1,
        "inferstream_frontends_started": 0,
        "inferstream_frontends_lost": 0,
    }
