"""How the command ends: signals stop its server, and a watchdog ends the process when that does not."""

import os
import signal
import threading
from collections.abc import Callable


class Watchdog:
    """Ends the process with status 1 after `seconds`, from a thread: the event loop may never run again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.started = False

    def start(self) -> None:
        """Begin to count, unless that has begun."""
        if self.started:
            return
        self.started = True
        timer = threading.Timer(self._seconds, os._exit, args=(1,))
        timer.daemon = True
        timer.start()


def listen_to_signals(stop: Callable[[], None], watchdog: Watchdog) -> None:
    """Call `stop` at the first SIGTERM or SIGINT, end the process at the second, and ignore SIGHUP."""

    def signalled(*_: object) -> None:
        """Runs between two bytecodes, so also when model code is keeping the event loop to itself."""
        if watchdog.started:
            os._exit(130)
        watchdog.start()
        stop()

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, signalled)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
