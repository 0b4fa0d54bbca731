"""The number of processors that this process may use at once."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

_processes = 1


def divide(processes: int) -> None:
    """Share the processors among `processes`, which include this one."""
    global _processes
    _processes = processes


def share() -> int:
    """This process's share of the processors, at least one."""
    return max(1, available() // _processes)


def available() -> int:
    """Processors that the affinity and the CPU quota (of a container, for example) allow; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, *(math.ceil(quota) for quota in _quotas()), cores))


def _quotas() -> Iterator[float]:
    """The limit of each control group of this process that has one, in processors."""
    try:
        groups = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = CGROUPS / controllers if controllers else CGROUPS
        # In a container its own group may be the top, and the folders of the path may be missing.
        for folder in (top / path.lstrip("/"), *(top / path.lstrip("/")).parents):
            if not folder.is_relative_to(top):
                break
            yield from _quota(folder)


def _quota(folder: Path) -> Iterator[float]:
    """The limit of one control group: one file in version 2, two in version 1."""
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
