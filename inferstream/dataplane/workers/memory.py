"""Memory usage of worker processes, as reported by the kernel and device libraries."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...telemetry.gpu import measure_processes
from ..residency import HOST, Bytes


def measure_memory(processes: Sequence[int], devices: bool) -> Bytes:
    """Return the bytes that processes use, by kind of memory.

    On the host, this is the proportional set size (PSS). If `devices`, includes the memory of each device.
    """
    size = {HOST: sum(map(proportional_set_size, processes))}
    if devices and processes:
        size |= measure_processes(processes)
    return size


def proportional_set_size(process: int) -> int:
    """Return the proportional set size of a process in bytes.

    Returns 0 if the process has exited, and on systems other than Linux.
    """
    return _number(f"/proc/{process}/smaps_rollup", "Pss:") * 1024


def count_oom_kills() -> int:
    """Return the number of processes that the kernel has killed for lack of memory (OOM). 0 if unavailable."""
    return _number("/proc/vmstat", "oom_kill ")


def _number(file: str, name: str) -> int:
    with suppress(OSError):
        for line in Path(file).read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
