"""The number of CPUs that this process can use at the same time."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

_processes = 1


def divide(processes: int) -> None:
    """Divide the CPUs among `processes`, including this one."""
    global _processes
    _processes = processes


def share() -> int:
    """Return this process's share of the CPUs, at least 1."""
    return max(1, available() // _processes)


def available() -> int:
    """Return the number of CPUs that the affinity mask and the CPU quota allow, at least 1.

    Containers usually limit CPU use with a quota.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, *(math.ceil(quota) for quota in _quotas()), cores))


def _quotas() -> Iterator[float]:
    """Yield the quota of each control group above this process that has one, in CPUs."""
    try:
        groups = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = CGROUPS / controllers if controllers else CGROUPS
        # In a container, its own group can be the root, so the folders of the path may be missing.
        for folder in (top / path.lstrip("/"), *(top / path.lstrip("/")).parents):
            if not folder.is_relative_to(top):
                break
            yield from _quota(folder)


def _quota(folder: Path) -> Iterator[float]:
    """Yield the quota of one control group, in CPUs. It is in one file in cgroup v2, and in two in v1."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        if quota not in ("max", "-1"):
            yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return
