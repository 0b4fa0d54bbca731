"""Disk space reservation for files that `prometheus_client` maps.

Without it, writing to a mapped file on a full disk would kill the process.
"""

import fcntl
import logging
import mmap
import os
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

from .at_import import patch_at_import

logger = logging.getLogger("inferstream.telemetry")

MODULE = "prometheus_client.mmap_dict"
"""The module of `prometheus_client` that maps files."""


def reserve_metric_files() -> None:
    """Reserve the disk space of metric files before mapping them.

    If the disk is full, use anonymous memory instead.
    """
    patch_at_import(MODULE, _reserve_in)


def _reserve_in(module: ModuleType) -> None:
    vars(module)["mmap"] = SimpleNamespace(**{**vars(mmap), "mmap": _Mapping().map})


class _Mapping:
    """Maps files for `prometheus_client`, which holds its lock during the call."""

    def __init__(self) -> None:
        self._said = False

    def map(self, descriptor: int, length: int, **options: Any) -> mmap.mmap:
        if options.get("access") == mmap.ACCESS_READ:
            return mmap.mmap(descriptor, length, **options)
        content = os.pread(descriptor, length, 0).ljust(length, b"\0")
        try:
            _write(descriptor, content)
        except OSError as error:
            self._log_once(error)
            memory = mmap.mmap(-1, length)
            memory[:] = content
            return memory
        return mmap.mmap(descriptor, length, **options)

    def _log_once(self, error: OSError) -> None:
        if not self._said:
            self._said = True
            text = "metrics that model code makes in process %d are no longer shown (setting metrics_dir): %s"
            # Log in a thread: a log handler may count lines with a metric, whose lock is held here.
            threading.Thread(target=logger.error, args=(text, os.getpid(), error.strerror)).start()


def _write(descriptor: int, content: bytes) -> None:
    """Write the whole file, so that it has no holes and its disk space is allocated."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND)  # Linux would ignore the offset
    rest = memoryview(content)
    while rest:
        rest = rest[os.pwrite(descriptor, rest, len(content) - len(rest)) :]
