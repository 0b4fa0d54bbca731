"""Meters of worker processes and front-end processes."""

import os
from pathlib import Path

from .files import MetricFiles
from .meter_set import COUNTS, Histogram, Single, counter, gauge, histogram


class WorkerMeters(Single):
    """Running, started and lost workers, and the number of calls in each."""

    running = gauge("inferstream_workers", "Worker processes running", read=lambda self: len(self._running))
    memory = gauge(
        "inferstream_workers_memory_bytes",
        "Resident memory of the worker processes, shared memory in each",
        read=lambda self: sum(map(_read_resident_memory, self._running)),
    )
    begun: int = counter("inferstream_workers_started", "Worker processes started")
    lost: int = counter("inferstream_workers_lost", "Worker processes that exited unexpectedly")
    retried: int = counter("inferstream_calls_retried", "Calls retried in another worker")
    depths: Histogram = histogram(
        "parallel_request_queue", "Calls in a worker when it received a new call", COUNTS
    )

    def __init__(self, files: MetricFiles) -> None:
        super().__init__()
        self.files = files
        self._running: set[int] = set()

    def count_start(self, pid: int) -> None:
        self._running.add(pid)
        self.begun += 1
        self.files.add_worker(pid)

    def count_crash(self, pid: int) -> None:
        """Count a worker process that exited unexpectedly."""
        self._running.discard(pid)
        self.lost += 1
        self.files.mark_dead(pid)

    def remove_worker(self, pid: int) -> None:
        """Remove a worker process that is no longer needed."""
        self._running.discard(pid)
        self.files.mark_dead(pid)


def _read_resident_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if it has exited or the system is not Linux."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class FrontEndMeters(Single):
    """Serving front-end processes including the first one, and additional ones that were started or lost."""

    serving: int = gauge("inferstream_frontends", "Front-end processes that serve requests")
    started: int = counter("inferstream_frontends_started", "Additional front-end processes started")
    lost: int = counter(
        "inferstream_frontends_lost", "Additional front-end processes that exited unexpectedly"
    )

    def __init__(self) -> None:
        super().__init__()
        self.serving = 1
