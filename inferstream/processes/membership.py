"""Makes a process a member of the server that started it."""

import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial

from ..concurrency.event_loop import install_event_loop, run_despite_exits
from ..telemetry.custom import CUSTOM
from ..telemetry.reserving import reserve_metric_files
from . import ending, signals
from .custom_metrics import CustomMetricSender

_PR_SET_PDEATHSIG = 1

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or process supervisor sends to the whole group. Only the server handles them."""

SHORTEST_END_SECONDS = 0.1
"""The minimum time for functions registered with `atexit`, in seconds."""


def _die_with(parent: int, lifeline: int) -> None:
    """Exit with the server, no matter how it exits or what model code does in this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)

    def watch() -> None:
        os.read(lifeline, 1)  # returns when the server's end is closed, at the latest when the server exits
        os._exit(0)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _leave(end: int) -> None:
    """Detach a child that model code forked, so that it does not write to the server's socket."""
    CUSTOM.sink = None
    os.close(end)


_over: "asyncio.Future[float] | None" = None


def end(seconds: float) -> None:
    """Make `run` exit this process, regardless of its threads. `atexit` functions may run for `seconds`."""
    if _over is not None and not _over.done():
        _over.set_result(max(seconds, SHORTEST_END_SECONDS))


def run(start: Callable[[], CustomMetricSender]) -> None:
    """Serve on an event loop until the process is ended.

    `start` starts the service and returns the sender of custom metrics.
    """

    async def serve() -> float:
        global _over
        _over = asyncio.get_running_loop().create_future()
        CUSTOM.sink = start()
        return await _over

    loop = install_event_loop()
    signals.run_on(loop)
    ending.end(0, run_despite_exits(loop, serve(), SystemExit, KeyboardInterrupt))


def belong_to(parent: int, end: int, lifeline: int, *others: int) -> None:
    """Make this process a member of the server: it exits with the server and ignores signals.

    `end` is its socket to the server. Processes that model code starts do not inherit these descriptors.
    """
    for descriptor in (end, lifeline, *others):
        os.set_inheritable(descriptor, False)
    _die_with(parent, lifeline)
    reserve_metric_files()
    # A handler instead of SIG_IGN, which processes that model code executes would inherit.
    signals.handle({name: lambda *_: None for name in SIGNALS}, partial(_leave, end))
