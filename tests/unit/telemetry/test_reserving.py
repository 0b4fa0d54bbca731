"""A full disk under the files of metrics ends no process: its metrics stop, and the log says so once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferstream.telemetry.files import MetricFiles
from tests.disks import small_disk

WORKER = """
import sys
{before}
from inferstream.telemetry.reserving import reserve_metric_files
reserve_metric_files()
from prometheus_client import Counter, Gauge, Histogram
ASKED = Counter("test_reserving_asked", "Asked", ["who"])
for i in range({labels}):
    ASKED.labels(f"client {{i}} {{'x' * 100}}").inc(3)
Gauge("test_reserving_depth", "Depth", multiprocess_mode="sum").set(7)
Histogram("test_reserving_seconds", "Seconds", buckets=[1, 2]).observe(1.5)
assert ASKED.labels(f"client {{i}} {{'x' * 100}}")._value.get() == 3
"""
IMPORTED = {"before": "import prometheus_client", "after": ""}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB: room for four files."""
    with small_disk(tmp_path / "disk", "256k") as folder:
        yield folder


def work(files: MetricFiles, labels: int, imported: str = "after") -> subprocess.CompletedProcess[str]:
    code = WORKER.format(before=IMPORTED[imported], labels=labels)
    environment = {**os.environ, **files.variables()}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def asked(files: MetricFiles) -> dict[str, float]:
    return {sample.name: sample.value for metric in files.collect() for sample in metric.samples}


@pytest.mark.parametrize("imported", IMPORTED)
def test_full_disk_is_reported_once_without_exiting(disk: Path, imported: str) -> None:
    files = MetricFiles(str(disk))
    files.variables()
    (disk / "filling").write_bytes(bytes(256 * 1024))
    ran = work(files, 10, imported)
    assert (ran.returncode, ran.stderr.count("no longer shown")) == (0, 1), ran.stderr
    assert "No space left on device" in ran.stderr
    assert asked(files) == {}
    files.close()


@pytest.mark.parametrize("imported", IMPORTED)
def test_file_that_cannot_grow_keeps_its_content(disk: Path, imported: str) -> None:
    files = MetricFiles(str(disk))
    ran = work(files, 1500, imported)
    assert (ran.returncode, ran.stderr.count("no longer shown")) == (0, 1), ran.stderr
    assert asked(files)["test_reserving_asked_total"] == 3
    files.close()


def test_files_grow_if_there_is_space(tmp_path: Path) -> None:
    files = MetricFiles(str(tmp_path))
    ran = work(files, 1500)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = [sample for metric in files.collect() for sample in metric.samples]
    assert sum(sample.value for sample in found if sample.name == "test_reserving_asked_total") == 4500
    assert {path.stat().st_blocks * 512 >= path.stat().st_size for path in tmp_path.glob("*/*.db")} == {True}
    files.close()
