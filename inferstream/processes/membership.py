"""Makes a process a part of the server that started it."""

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
"""Signals that a terminal or a process supervisor sends to the whole group. Only the server acts on them."""

SHORTEST_END_SECONDS = 0.1
"""Seconds that functions registered with `atexit` have at least."""


def _die_with(parent: int, lifeline: int) -> None:
    """End with the server, however it ends and whatever model code does here."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)

    def watch() -> None:
        os.read(lifeline, 1)  # returns when the server's end is closed, at the latest when the server ends
        os._exit(0)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _leave(end: int) -> None:
    """Make a fork of model code no worker: it does not write to the server."""
    CUSTOM.sink = None
    os.close(end)


_over: "asyncio.Future[float] | None" = None


def end(seconds: float) -> None:
    """Let `run` end this process, whatever its threads do; functions registered with `atexit` have `seconds`."""
    if _over is not None and not _over.done():
        _over.set_result(max(seconds, SHORTEST_END_SECONDS))


def run(start: Callable[[], CustomMetricSender]) -> None:
    """Serve on an event loop until the process is ended. `start` begins to, and returns what sends custom metrics."""

    async def serve() -> float:
        global _over
        _over = asyncio.get_running_loop().create_future()
        CUSTOM.sink = start()
        return await _over

    loop = install_event_loop()
    signals.run_on(loop)
    ending.end(0, run_despite_exits(loop, serve(), SystemExit, KeyboardInterrupt))


def belong_to(parent: int, end: int, lifeline: int, *others: int) -> None:
    """Make this process a part of the server: it ends with the server, and ignores signals.

    `end` is its socket to the server. Processes that model code starts inherit none of these descriptors.
    """
    for descriptor in (end, lifeline, *others):
        os.set_inheritable(descriptor, False)
    _die_with(parent, lifeline)
    reserve_metric_files()
    # A handler and not SIG_IGN: processes that model code executes would inherit that and ignore SIGTERM.
    signals.handle({name: lambda *_: None for name in SIGNALS}, partial(_leave, end))
