"""Memory of worker processes, as the kernel and the library of a device tell it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...telemetry.gpu import memory_of_processes
from ..residency import HOST, Bytes


def held_by(processes: Sequence[int], devices: bool) -> Bytes:
    """What processes hold: shared pages by halves, thirds and so on (PSS), and the devices of the limits."""
    size = {HOST: sum(map(proportional, processes))}
    if devices and processes:
        size |= memory_of_processes(processes)
    return size


def proportional(process: int) -> int:
    """The proportional set size of a process in bytes; 0 if it has ended, or without Linux."""
    return _number(f"/proc/{process}/smaps_rollup", "Pss:") * 1024


def kills() -> int:
    """How many processes the kernel has killed for lack of memory; 0 where it does not tell."""
    return _number("/proc/vmstat", "oom_kill ")


def _number(file: str, name: str) -> int:
    with suppress(OSError):
        for line in Path(file).read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
