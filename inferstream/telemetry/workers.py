"""Meters of worker processes and front ends."""

import os
from pathlib import Path

from .files import MetricFiles
from .meter_set import COUNTS, Histogram, Single, counter, gauge, histogram


class WorkerMeters(Single):
    """Running, started and lost workers, and their numbers of calls."""

    running = gauge("inferstream_workers", "Worker processes running", read=lambda self: len(self._running))
    memory = gauge(
        "inferstream_workers_memory_bytes",
        "Resident memory of the worker processes, shared memory in each",
        read=lambda self: sum(map(_resident, self._running)),
    )
    begun: int = counter("inferstream_workers_started", "Worker processes started")
    lost: int = counter("inferstream_workers_lost", "Worker processes that ended early")
    retried: int = counter("inferstream_calls_retried", "Calls given to a second worker")
    depths: Histogram = histogram("parallel_request_queue", "Calls a worker had when given one more", COUNTS)

    def __init__(self, files: MetricFiles) -> None:
        super().__init__()
        self.files = files
        self._running: set[int] = set()

    def started(self, pid: int) -> None:
        self._running.add(pid)
        self.begun += 1
        self.files.started(pid)

    def ended(self, pid: int) -> None:
        """A worker process ended unexpectedly."""
        self._running.discard(pid)
        self.lost += 1
        self.files.ended(pid)

    def stopped(self, pid: int) -> None:
        """A worker process is no longer needed."""
        self._running.discard(pid)
        self.files.ended(pid)


def _resident(pid: int) -> int:
    """Bytes of resident memory of a process; 0 if it has ended, or without Linux."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class FrontEndMeters(Single):
    """Serving front ends, the first included, and further ones that were started or lost."""

    serving: int = gauge("inferstream_frontends", "Front ends that serve")
    started: int = counter("inferstream_frontends_started", "Further front ends started")
    lost: int = counter("inferstream_frontends_lost", "Further front ends that ended early")

    def __init__(self) -> None:
        super().__init__()
        self.serving = 1
