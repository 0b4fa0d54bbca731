"""Memory of worker processes, as the kernel and the library of a device tell it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...telemetry.gpu import memory_of_processes
from ..residency import HOST, Bytes


class ProcessMemory:
    """Adds up what processes hold: shared pages by halves, thirds and so on (PSS), and the devices of the limits."""

    def __init__(self, devices: bool) -> None:
        self._devices = devices

    def __call__(self, processes: Sequence[int]) -> Bytes:
        size = {HOST: sum(map(proportional, processes))}
        if self._devices and processes:
            size |= memory_of_processes(processes)
        return size


def proportional(process: int) -> int:
    """The proportional set size of a process in bytes; 0 if it has ended, or without Linux."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def kills() -> int:
    """How many processes the kernel has killed for lack of memory; 0 where it does not tell."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
