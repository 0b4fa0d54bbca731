"""How many processors this process may use at once."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

_processes = 1


def divide(processes: int) -> None:
    """Share the processors with other processes that do the same work; `processes` counts this one too."""
    global _processes
    _processes = processes


def share() -> int:
    """This process's part of the processors, at least one."""
    return max(1, available() // _processes)


def available() -> int:
    """Processors that the affinity and the CPU quota leave, as a container's limits set them; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, *(math.ceil(quota) for quota in _quotas()), cores))


def _quotas() -> Iterator[float]:
    """Processors that each control group of this process may use, where it has a limit."""
    try:
        groups = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = CGROUPS / controllers if controllers else CGROUPS
        # A container may see its own group as the top, or not see the folders that the path names.
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
