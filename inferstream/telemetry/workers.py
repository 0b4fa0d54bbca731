"""Meters of worker processes and front ends."""

import os
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from .files import MetricFiles
from .histogram import COUNTS, Histogram


class WorkerMeters(Collector):
    """Running, started and lost workers, and their numbers of calls."""

    def __init__(self, files: MetricFiles) -> None:
        self.files = files
        self._running: set[int] = set()
        self._started = 0
        self._ended = 0
        self._retried = 0
        self._depths = Histogram(COUNTS)

    def started(self, pid: int) -> None:
        self._running.add(pid)
        self._started += 1
        self.files.started(pid)

    def ended(self, pid: int) -> None:
        """A worker process ended unexpectedly."""
        self._running.discard(pid)
        self._ended += 1
        self.files.ended(pid)

    def stopped(self, pid: int) -> None:
        """A worker process is no longer needed."""
        self._running.discard(pid)
        self.files.ended(pid)

    def retried(self) -> None:
        """A second worker got a request, because the first ended before it began."""
        self._retried += 1

    def scheduled(self, depth: int) -> None:
        """A worker got a call when it had `depth` already."""
        self._depths.observe(depth)

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("inferstream_workers", "Worker processes running", value=len(self._running))
        yield GaugeMetricFamily(
            "inferstream_workers_memory_bytes",
            "Resident memory of the worker processes, shared memory in each",
            value=sum(map(_resident, self._running)),
        )
        yield CounterMetricFamily("inferstream_workers_started", "Worker processes started", self._started)
        yield CounterMetricFamily(
            "inferstream_workers_lost", "Worker processes that ended early", self._ended
        )
        yield CounterMetricFamily(
            "inferstream_calls_retried", "Calls given to a second worker", self._retried
        )
        depth = HistogramMetricFamily("parallel_request_queue", "Calls a worker had when given one more")
        depth.add_metric([], self._depths.buckets(), self._depths.total)
        yield depth


def _resident(pid: int) -> int:
    """Bytes of resident memory of a process; 0 if it has ended, or without Linux."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class FrontEndMeters(Collector):
    """Serving front ends, the first included, and further ones that were started or lost."""

    def __init__(self) -> None:
        self.serving = 1
        self.started = 0
        self.lost = 0

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("inferstream_frontends", "Front ends that serve", value=self.serving)
        yield CounterMetricFamily("inferstream_frontends_started", "Further front ends started", self.started)
        yield CounterMetricFamily(
            "inferstream_frontends_lost", "Further front ends that ended early", self.lost
        )
