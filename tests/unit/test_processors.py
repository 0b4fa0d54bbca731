"""How many processors there are for this process: affinity, quota, and other processes that do the same."""

import os
from pathlib import Path

import pytest

from inferstream import processors


@pytest.fixture
def groups(tmp_path, monkeypatch) -> Path:
    """A machine of eight cores, with control groups in a folder."""
    monkeypatch.setattr(processors, "CGROUPS", tmp_path)
    monkeypatch.setattr(processors, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(processors, "_processes", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    return tmp_path


def test_affinity_applies_without_a_quota(groups) -> None:
    assert processors.available() == 8  # there is no file that says which groups these are
    (groups / "membership").write_text("0::/\n")
    (groups / "cpu.max").write_text("max 100000\n")
    assert processors.available() == 8


@pytest.mark.parametrize(
    ("quota", "found"), [("150000 100000", 2), ("10000 100000", 1), ("9900000 100000", 8)]
)
def test_quota_is_rounded_up(groups, quota: str, found: int) -> None:
    (groups / "membership").write_text("0::/\n")
    (groups / "cpu.max").write_text(quota)
    assert processors.available() == found


def test_smallest_quota_of_all_parent_groups_applies(groups) -> None:
    (groups / "membership").write_text("0::/system/server\n")
    (groups / "system" / "server").mkdir(parents=True)
    (groups / "system" / "cpu.max").write_text("300000 100000")
    (groups / "system" / "server" / "cpu.max").write_text("max 100000")
    assert processors.available() == 3


def test_cgroup_v1_is_found_at_the_container_root(groups) -> None:
    (groups / "membership").write_text("5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n")
    (groups / "cpu,cpuacct").mkdir()
    (groups / "cpu,cpuacct" / "cpu.cfs_quota_us").write_text("400000\n")
    (groups / "cpu,cpuacct" / "cpu.cfs_period_us").write_text("100000\n")
    assert processors.available() == 4
    (groups / "cpu,cpuacct" / "cpu.cfs_quota_us").write_text("-1\n")
    assert processors.available() == 8


def test_processors_are_shared_by_equal_processes(groups) -> None:
    processors.divide(3)
    assert processors.share() == 2
    processors.divide(100)
    assert processors.share() == 1
