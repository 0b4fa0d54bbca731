"""Cancelling a task that may run model code. Model code may linger in its `finally`, or swallow the cancel."""

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger("inferstream.model")

PATIENCE = 5.0
"""Seconds between two cancels of a task that does not end."""


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


class Reminder:
    """`with Reminder():` cancels the current task again if model code lingers after a library's only cancel."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelled_before = False
        self._timer = self._schedule()

    def _schedule(self) -> asyncio.TimerHandle:
        return self._task.get_loop().call_later(PATIENCE, self._look)

    def _look(self) -> None:
        if self._cancelled_before:
            logger.error("model code lingers %g s after it was cancelled; cancelling it again", PATIENCE)
            self._task.cancel()
        self._cancelled_before = self._task.cancelling() > 0
        self._timer = self._schedule()

    def __enter__(self) -> None:
        """The timer was started by `__init__`."""

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
