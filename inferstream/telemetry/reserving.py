"""Reserves the room of files that `prometheus_client` maps, because without it a write to one ends the process."""

import fcntl
import logging
import mmap
import os
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

from .at_import import at_import

logger = logging.getLogger("inferstream.telemetry")

MODULE = "prometheus_client.mmap_dict"
"""The module of the library that maps files."""


def reserve_metric_files() -> None:
    """Let this process map metric files only with their room reserved; without room, memory of its own instead."""
    at_import(MODULE, _reserve_in)


def _reserve_in(module: ModuleType) -> None:
    vars(module)["mmap"] = SimpleNamespace(**{**vars(mmap), "mmap": _Mapping().map})


class _Mapping:
    """Maps files for the library, which holds its lock meanwhile."""

    def __init__(self) -> None:
        self._said = False

    def map(self, descriptor: int, length: int, **options: Any) -> mmap.mmap:
        if options.get("access") == mmap.ACCESS_READ:
            return mmap.mmap(descriptor, length, **options)
        content = os.pread(descriptor, length, 0).ljust(length, b"\0")
        try:
            _write(descriptor, content)
        except OSError as error:
            self._say(error)
            memory = mmap.mmap(-1, length)
            memory[:] = content
            return memory
        return mmap.mmap(descriptor, length, **options)

    def _say(self, error: OSError) -> None:
        if not self._said:
            self._said = True
            text = "metrics that model code makes in process %d are no longer shown (setting metrics_dir): %s"
            # In a thread, because a handler of the log may count lines with a metric, whose lock is held.
            threading.Thread(target=logger.error, args=(text, os.getpid(), error.strerror)).start()


def _write(descriptor: int, content: bytes) -> None:
    """Write the whole file. What is written has its room, and a hole has none."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND)  # which Linux prefers to the offset
    rest = memoryview(content)
    while rest:
        rest = rest[os.pwrite(descriptor, rest, len(content) - len(rest)) :]
