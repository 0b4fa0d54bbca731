"""Cancelling a task that may run model code. Model code may linger in its `finally`, or swallow the cancel."""

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger("inferstream.model")

PATIENCE = 5.0
"""Seconds between two cancels of a task that does not end."""


class ClientLeft(Exception):
    """The client has left, and nothing can be sent to it or received. It ends the work for the client."""


FAILURES = (Exception, asyncio.CancelledError)
"""Errors that end the work of a task, and not the process."""


def is_own_cancel(error: BaseException) -> bool:
    """Whether somebody has cancelled this task. Model code and libraries raise CancelledError without that."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Interruption:
    """Cancels `task` now, and again every `PATIENCE` seconds while `lingers()` is true."""

    def __init__(self, task: asyncio.Task[object], lingers: Callable[[], bool]) -> None:
        self._task = task
        self._lingers = lingers
        self._cancels = 0
        self._timer: asyncio.TimerHandle | None = None
        self._strike()
        if self._timer is not None:
            # The timer would keep the task, and with it the request, for seconds after its end.
            task.add_done_callback(self._ended)

    def _strike(self) -> None:
        self._timer = None
        if self._task.done() or not self._lingers():
            return
        if self._cancels:
            logger.error("model code lingers %g s after it was cancelled; cancelling it again", PATIENCE)
        self._cancels += 1
        self._task.cancel()
        self._timer = self._task.get_loop().call_later(PATIENCE, self._strike)

    def _ended(self, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_back(self) -> None:
        """Undo the cancels of a task that continues with other work."""
        self._ended(None)
        self._task.remove_done_callback(self._ended)
        for _ in range(self._cancels):
            self._task.uncancel()
        self._cancels = 0
