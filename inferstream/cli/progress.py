"""A status line in the terminal while models load."""

import shutil
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Self

from ..telemetry.console import ERASE, StatusLine, is_terminal

if TYPE_CHECKING:
    from ..dataplane.registry import Registry

AFTER = 0.3
"""The delay before the line appears, in seconds. Shorter starts do not show it."""

EVERY = 0.2
"""The interval between updates of the line, in seconds."""

MAX_NAMES = 4


class Progress:
    """Shows the loading models of a registry on standard error, if it is a terminal, until `stop` is called.

    It writes from a thread, because a model's `load` may block the event loop.
    """

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if is_terminal(sys.stderr):
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Erase the line and stop updating it."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if self._over.wait(AFTER):
            return
        try:
            while not self._over.wait(EVERY):
                loading = progress_line(self._registry.wanted, self._registry.loading.copy(), monotonic())
                others = (line() for line in StatusLine.before_loads)
                if line := next(filter(None, others), loading):
                    StatusLine.shown = True
                    # The cursor returns to the start, so that output of a model overwrites the line.
                    width = shutil.get_terminal_size().columns - 1
                    self._write(f"{ERASE}{line[:width]}\r")
        finally:
            if StatusLine.shown:
                StatusLine.shown = False
                self._write(ERASE)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def progress_line(wanted: int, loading: dict[tuple[str, str | None], float], now: float) -> str:
    """Return a line such as `loading 2 of 5: words 12 s, chat 3 s`, or "" if no model is loading."""
    if not loading:
        return ""
    names = [
        f"{name}{f':{version}' if version else ''} {now - began:.0f} s"
        for (name, version), began in sorted(loading.items(), key=lambda item: item[1])
    ]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    nth = min(wanted - len(loading) + 1, wanted)
    of = f" {nth} of {wanted}" if wanted > 1 else ""
    return f"loading{of}: {', '.join(names[:MAX_NAMES])}{more} …"
