"""What the processes of a group are started with."""

import pytest

from inferstream.dataplane.workers.placement import Placement, _programs


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(("workers", "share"), [(1, "8"), (3, "2"), (16, "1")])
def test_workers_share_the_cores(workers: int, share: str) -> None:
    programs = _programs(Placement(workers, None, None, ()), "worker.py", {})
    assert [program.variables["OMP_NUM_THREADS"] for program in programs] == [share] * workers


def test_threads_that_a_user_has_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "OMP_NUM_THREADS" not in _programs(Placement(2, None, None, ()), "worker.py", {})[0].variables
