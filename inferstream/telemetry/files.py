"""Files of the metrics that model code makes in workers with `prometheus_client`.

The library supports several processes by files: each process writes its numbers, and a scrape adds them up.
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
"""With this a folder's name begins."""


class MetricFiles:
    """A folder for the workers of one server. A new worker continues the numbers of one that has ended.

    So counters never decrease, and there are no more files than there were workers at once.
    """

    def __init__(self, root: str | None) -> None:
        """Makes the folder that the environment names, or no metric of model code could be counted in this process.

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
        """Environment variables for workers; empty if no file can be written. Makes the folder."""
        if self._folder is None:
            try:
                self._make(Path(self._root or tempfile.gettempdir()))
            except OSError as error:
                logger.warning("metrics that model code in workers makes itself are not shown: %s", error)
                return {}
        return {VARIABLE: str(self._folder)}

    def _make(self, root: Path) -> None:
        """Make the folder, and remove those of servers that were killed: nobody has locked them. Raises OSError."""
        root.mkdir(parents=True, exist_ok=True)
        self._folder = making = Path(tempfile.mkdtemp(prefix=f"making-{PREFIX}", dir=root))
        self._lock = _lock(making)
        if self._lock is None:
            return  # without its lock it keeps a name that no other server removes
        self._folder = making.rename(root / making.name.removeprefix("making-"))
        for folder in root.glob(f"{PREFIX}*"):
            lock = _lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)

    def started(self, pid: int) -> None:
        """A worker has started and runs no model's code yet."""
        self._ended.discard(pid)
        ended = next((old for old in self._ended if not _lives(old)), None)
        if ended is not None:
            self._ended.remove(ended)
            for file in self._of(ended):
                file.rename(file.with_name(file.name.replace(f"_{ended}.db", f"_{pid}.db")))

    def ended(self, pid: int) -> None:
        """A worker has ended or is about to. Its gauges are removed."""
        for file in self._of(pid):
            if file.name.startswith("gauge_"):
                file.unlink(missing_ok=True)
        self._ended.add(pid)

    def collect(self) -> Iterable[Metric]:
        """The numbers of all workers, added up."""
        if self._folder is None:
            return ()
        try:
            paths = map(str, self._folder.glob("*.db"))
            metrics: Iterable[Metric] = MultiProcessCollector.merge(paths)  # type: ignore[no-untyped-call]  # untyped
        except (OSError, RuntimeError, ValueError, struct.error) as error:
            logger.warning("the metrics of workers cannot be read: %s", error)
            return ()
        return metrics

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _of(self, pid: int) -> list[Path]:
        """The files of a process. A pattern for each would stay: `fnmatch` keeps the last 32,768."""
        if self._folder is None:
            return []
        return [file for file in self._folder.iterdir() if file.name.endswith(f"_{pid}.db")]


class ModelMetrics(Collector):
    """The library's default registry, without metrics of the process, and the files of workers."""

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
                family.samples = _summed([*family.samples, *metric.samples])
        return families.values()


def _summed(samples: list[Sample]) -> list[Sample]:
    """One sample for each name and labels. A model may run here, and another with the same code in workers."""
    sums: dict[object, Sample] = {}
    for sample in samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        before = sums.get(key)
        sums[key] = sample if before is None else sample._replace(value=before.value + sample.value)
    return list(sums.values())


def _lock(folder: Path) -> int | None:
    """Lock a folder of this user for as long as the process lives, whatever ends it; None if it cannot be had.

    A process id would not do, because containers may share the folder's parent.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:  # another server has it, or the file system has no locks
        pass
    os.close(descriptor)
    return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
