"""Metrics that processes of their own write, added up."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, Counter

from inferstream.errors import InvalidSettings
from inferstream.telemetry.files import MetricFiles, ModelMetrics

WORKER = """
from prometheus_client import Counter, Gauge, Histogram
Counter("test_files_asked", "Asked", ["who"]).labels("me").inc(3)
Gauge("test_files_depth", "Depth", multiprocess_mode="sum").set(7)
Histogram("test_files_seconds", "Seconds", buckets=[1, 2]).observe(1.5)
"""


@pytest.fixture
def files(tmp_path: Path):
    found = MetricFiles(str(tmp_path / "not" / "there" / "yet"))
    yield found
    found.close()
    assert not list((tmp_path / "not" / "there" / "yet").iterdir())


def work(files: MetricFiles) -> int:
    """A worker from its start to its end; returns its process id."""
    child = subprocess.Popen([sys.executable, "-c", WORKER], env={**os.environ, **files.variables()})
    files.add_worker(child.pid)
    assert child.wait(30) == 0
    return child.pid


def samples(files: MetricFiles) -> dict[str, float]:
    return {sample.name: sample.value for metric in files.collect() for sample in metric.samples}


@pytest.mark.parametrize("name", ["PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"])
def test_folder_from_the_environment_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(tmp_path / "left" / "over"))
    MetricFiles(None)
    assert (tmp_path / "left" / "over").is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv(name, str(tmp_path / "file" / "below"))
    with pytest.raises(InvalidSettings, match=r"PROMETHEUS_MULTIPROC_DIR=.*: Not a directory"):
        MetricFiles(None)


def test_no_files_exist_without_workers(tmp_path: Path) -> None:
    files = MetricFiles(str(tmp_path / "metrics"))
    assert list(files.collect()) == []
    files.add_worker(1)
    files.mark_dead(1)
    files.close()
    assert not (tmp_path / "metrics").exists()


def test_counters_continue_across_worker_restarts(files: MetricFiles) -> None:
    first = work(files)
    assert samples(files)["test_files_asked_total"] == 3
    assert samples(files)["test_files_depth"] == 7
    files.mark_dead(first)
    assert samples(files)["test_files_asked_total"] == 3
    assert "test_files_depth" not in samples(files)

    work(files)
    assert samples(files)["test_files_asked_total"] == 6
    assert samples(files)["test_files_seconds_count"] == 2
    assert samples(files)["test_files_depth"] == 7
    assert len(list(Path(files.variables()["PROMETHEUS_MULTIPROC_DIR"]).glob("counter_*"))) == 1


def test_concurrent_workers_are_summed(files: MetricFiles) -> None:
    work(files)
    work(files)
    assert samples(files)["test_files_asked_total"] == 6
    assert samples(files)["test_files_depth"] == 14


SERVER = """
import sys
from inferstream.errors import InvalidSettings
from inferstream.telemetry.files import MetricFiles
files = MetricFiles(sys.argv[1])
print(files.variables()["PROMETHEUS_MULTIPROC_DIR"], flush=True)
sys.stdin.read()
"""


def server(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SERVER, str(root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_folder_of_a_killed_server_is_removed_by_the_next(tmp_path: Path) -> None:
    with server(tmp_path) as killed, server(tmp_path) as living:
        gone, kept = (Path(each.stdout.readline().strip()) for each in (killed, living))
        (gone / "counter_1.db").write_bytes(b"x")
        killed.kill()
        killed.wait(10)
        others = [tmp_path / "inferstream-metrics-file", tmp_path / "inferstream-metrics-link"]
        others[0].touch()
        others[1].symlink_to(kept)
        files = MetricFiles(str(tmp_path))
        own = Path(files.variables()["PROMETHEUS_MULTIPROC_DIR"])
        assert {*tmp_path.iterdir()} == {kept, own, *others}
        files.close()
        assert not own.exists()
        living.communicate(timeout=10)


def test_unlockable_folder_is_not_removed_by_other_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "no locks here")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        unlocked = MetricFiles(str(tmp_path))
        kept = Path(unlocked.variables()["PROMETHEUS_MULTIPROC_DIR"])
    other = MetricFiles(str(tmp_path))
    other.variables()
    assert kept.exists()
    for files in (unlocked, other):
        files.close()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "damage", [b"", b"\x64" + bytes(3) + b"\xff" * 96, b"\x64" + bytes(7) + b"\x08" + bytes(99)]
)
def test_damaged_file_hides_worker_metrics_but_not_the_scrape(files: MetricFiles, damage: bytes) -> None:
    work(files)
    folder = Path(files.variables()["PROMETHEUS_MULTIPROC_DIR"])
    next(folder.glob("counter_*")).write_bytes(damage)
    assert samples(files) == {}


def test_uncreatable_folder_only_disables_the_metrics(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = MetricFiles(str(tmp_path / "file" / "below"))
    assert files.variables() == {}
    assert list(files.collect()) == []


def test_server_and_worker_metrics_are_one_family(files: MetricFiles) -> None:
    counter = Counter("test_files_asked", "Asked", ["who"])
    try:
        counter.labels("me").inc(1)
        counter.labels("you").inc(1)
        work(files)
        found = {metric.name: metric for metric in ModelMetrics(files).collect()}
    finally:
        REGISTRY.unregister(counter)
    totals = {
        sample.labels["who"]: sample.value
        for sample in found["test_files_asked"].samples
        if sample.name.endswith("_total")
    }
    assert totals == {"me": 4, "you": 1}
    assert not [name for name in found if name.startswith(("process_", "python_"))]
