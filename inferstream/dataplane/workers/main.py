"""What a worker process runs."""

import asyncio
import ctypes
import os
import signal
import socket
import sys
import threading
from functools import partial

from ...event_loop import new_event_loop
from ...telemetry.custom import CUSTOM
from ..execution.base import BuildAnswering
from .link import Link
from .worker import Worker

_PR_SET_PDEATHSIG = 1


def _die_with(parent: int, lifeline: int) -> None:
    """Never outlive the server, however it ends and whatever model code is doing here."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)

    def watch() -> None:
        os.read(lifeline, 1)  # returns when the server's end is closed, which it is when the server is gone
        os._exit(0)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def main(
    build_answering: BuildAnswering, parent: int, end: int, lifeline: int, incoming: int, outgoing: int
) -> None:
    """Serve the process `parent` through descriptors that it has opened, until it says stop or is gone."""
    for descriptor in (end, lifeline, incoming, outgoing):
        os.set_inheritable(descriptor, False)  # what model code starts must not keep them open
    _die_with(parent, lifeline)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # the server decides, also when a terminal asks the whole group

    async def serve() -> None:
        link = partial(Link, socket.socket(fileno=end))
        CUSTOM.sink = Worker(link, incoming, outgoing, build_answering)
        await asyncio.Event().wait()

    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(serve())
