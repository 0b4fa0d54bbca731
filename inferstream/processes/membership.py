"""Makes a process a part of the server that started it."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

from ..concurrency.event_loop import new_event_loop, run_despite_exits
from ..telemetry.background import finish
from ..telemetry.custom import CUSTOM
from ..telemetry.reserving import reserve_metric_files
from .custom_metrics import CustomMetricSender

_PR_SET_PDEATHSIG = 1

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a process supervisor sends to the whole group. Only the server acts on them."""


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
    """Make a fork of model code no worker: it ends on signals, and does not write to the server."""
    for name in SIGNALS:
        signal.signal(name, signal.default_int_handler if name is signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    CUSTOM.sink = None
    os.close(end)


def end() -> NoReturn:
    """End this process, whatever its threads do, after its last output."""
    finish()
    logging.shutdown()
    with suppress(Exception):  # model code may have closed stdout
        sys.stdout.flush()
    os._exit(0)


def run(start: Callable[[], CustomMetricSender]) -> None:
    """Serve on an event loop until the process is ended. `start` begins to, and returns what sends custom metrics."""

    async def serve() -> None:
        CUSTOM.sink = start()
        await asyncio.Event().wait()

    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    run_despite_exits(loop, serve(), SystemExit, KeyboardInterrupt)


def belong_to(parent: int, end: int, lifeline: int, *others: int) -> None:
    """Make this process a part of the server: it ends with the server, and ignores signals.

    `end` is its socket to the server. Processes that model code starts inherit none of these descriptors.
    """
    for descriptor in (end, lifeline, *others):
        os.set_inheritable(descriptor, False)
    _die_with(parent, lifeline)
    reserve_metric_files()
    for name in SIGNALS:
        # A handler and not SIG_IGN: processes that model code executes would inherit that and ignore SIGTERM.
        signal.signal(name, lambda *_: None)
    os.register_at_fork(
        before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, SIGNALS),
        after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, SIGNALS),
        after_in_child=partial(_leave, end),
    )
