"""Files for metrics that model code defines in workers with `prometheus_client`.

The library supports multiple processes with files: each process writes its values, and a scrape adds them up.
"""

import fcntl
import logging
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, REGISTRY
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from ..errors import InvalidSettings

logger = logging.getLogger("inferstream.telemetry")

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

PREFIX = "inferstream-metrics-"
"""The prefix of folder names."""


class MetricFiles:
    """A folder for the metric files of one server's workers. A new worker reuses the files of an exited one.

    This way, counters never decrease, and the number of files is bounded by the number of concurrent workers.
    """

    def __init__(self, root: str | None) -> None:
        """Create the folder in PROMETHEUS_MULTIPROC_DIR, if set. This process cannot count metrics otherwise.

        Raises InvalidSettings if that fails.
        """
        if named := os.environ.get(VARIABLE) or os.environ.get(VARIABLE.lower()):
            try:
                Path(named).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidSettings(
                    f"{VARIABLE}={named}: {error.strerror}; unset it or name a folder"
                ) from None
        self._root = root
        self._folder: Path | None = None
        self._lock: int | None = None
        self._ended: set[int] = set()

    def variables(self) -> dict[str, str]:
        """Create the folder, and return the environment variables for workers.

        Empty if no file can be written.
        """
        if self._folder is None:
            try:
                self._make(Path(self._root or tempfile.gettempdir()))
            except OSError as error:
                logger.warning("custom metrics of workers are not available: %s", error)
                return {}
        return {VARIABLE: str(self._folder)}

    def _make(self, root: Path) -> None:
        """Create the folder, and remove unlocked folders, whose servers were killed. Raises OSError."""
        root.mkdir(parents=True, exist_ok=True)
        self._folder = making = Path(tempfile.mkdtemp(prefix=f"making-{PREFIX}", dir=root))
        self._lock = _lock(making)
        if self._lock is None:
            return  # without a lock, keep the name that no other server removes
        self._folder = making.rename(root / making.name.removeprefix("making-"))
        for folder in root.glob(f"{PREFIX}*"):
            lock = _lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)

    def add_worker(self, pid: int) -> None:
        """Register a worker that has started but has not run model code yet."""
        self._ended.discard(pid)
        ended = next((old for old in self._ended if not _is_alive(old)), None)
        if ended is not None:
            self._ended.remove(ended)
            for file in self._list_files(ended):
                file.rename(file.with_name(file.name.replace(f"_{ended}.db", f"_{pid}.db")))

    def mark_dead(self, pid: int) -> None:
        """Register a worker that has exited or is about to. Its gauges are removed."""
        for file in self._list_files(pid):
            if file.name.startswith("gauge_"):
                file.unlink(missing_ok=True)
        self._ended.add(pid)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all workers, added up."""
        if self._folder is None:
            return ()
        try:
            paths = map(str, self._folder.glob("*.db"))
            metrics: Iterable[Metric] = MultiProcessCollector.merge(paths)  # type: ignore[no-untyped-call]  # untyped
        except (OSError, RuntimeError, ValueError, struct.error) as error:
            logger.warning("reading the metrics of workers failed: %s", error)
            return ()
        return metrics

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _list_files(self, pid: int) -> list[Path]:
        """Return the files of a process.

        Does not use `glob`, because `fnmatch` would cache a pattern per process.
        """
        if self._folder is None:
            return []
        return [file for file in self._folder.iterdir() if file.name.endswith(f"_{pid}.db")]


class ModelMetrics(Collector):
    """The default registry of `prometheus_client` without process metrics, plus the files of workers."""

    def __init__(self, files: MetricFiles) -> None:
        self._files = files
        standard: tuple[Collector, ...] = (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR)
        self._standard = {metric.name for collector in standard for metric in collector.collect()}

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        here = (metric for metric in REGISTRY.collect() if metric.name not in self._standard)
        for metric in chain(here, self._files.collect()):
            family = families.setdefault(metric.name, metric)
            if family is not metric:
                family.samples = _sum_samples([*family.samples, *metric.samples])
        return families.values()


def _sum_samples(samples: list[Sample]) -> list[Sample]:
    """Add up samples with the same name and labels. Models with the same code may run here and in workers."""
    sums: dict[object, Sample] = {}
    for sample in samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        before = sums.get(key)
        sums[key] = sample if before is None else sample._replace(value=before.value + sample.value)
    return list(sums.values())


def _lock(folder: Path) -> int | None:
    """Lock a folder that this user owns until the process exits. Returns its descriptor, or None on failure.

    A process id would not suffice, because containers may share the parent folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:  # locked by another server, or the file system does not support locks
        pass
    os.close(descriptor)
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
