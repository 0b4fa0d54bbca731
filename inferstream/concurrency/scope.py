"""Scopes: work of a task that other code may end, with a reason. The one place that cancels a task of a request.

Model code may linger in its `finally`, swallow the cancel, or raise one of its own.
"""

import asyncio
import logging
from typing import Self

logger = logging.getLogger("inferstream.model")

PATIENCE = 5.0
"""Seconds between two cancels of a task whose work does not end."""


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


def swallowed() -> BaseException:
    """The cancel of this task that model code has swallowed, to be raised again."""
    return asyncio.CancelledError()


class Scope:
    """Work of `task` that other code may end. Without a task the work does not wait, and gets the reason later.

    `with scope:` raises the reason in place of the cancel. A cancel by other code passes, also where both came: it is
    for the code around the scope. The paths of each call use `over` and `taken`, because `with` costs 0.3 µs.
    """

    __slots__ = ("_cancels", "_timer", "reason", "task")

    _cancels: int
    _timer: asyncio.Handle | None
    """Both are set by `end`, because most scopes end by themselves."""

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.task = task
        self.reason: Exception | None = None

    def end(self, reason: Exception) -> None:
        """Cancel the task now, and again every `PATIENCE` seconds until the work is over. The first reason counts."""
        if self.reason is not None:
            return
        self.reason = reason
        self._cancels = 0
        self._timer = None
        if (task := self.task) is None:
            return
        # The timer would keep the task, and with it the request, for seconds after its end.
        task.add_done_callback(self._stop)
        loop = task.get_loop()
        if asyncio.current_task(loop) is task:
            self._timer = loop.call_soon(self._cancel)  # a cancel that comes now could outlive the work
        else:
            self._cancel()

    def _cancel(self) -> None:
        task = self.task
        if task is None or task.done():
            return
        if self._cancels:
            why = type(self.reason).__name__
            logger.error(
                "model code lingers %g s after it was cancelled (%s); cancelling it again", PATIENCE, why
            )
        self._cancels += 1
        task.cancel()
        self._timer = task.get_loop().call_later(PATIENCE, self._cancel)

    def _stop(self, _: object = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def over(self, error: BaseException | None = None) -> bool:
        """The work is over, with `error` or without. Take the cancels back, because the task continues with other work.

        Whether the reason is to be raised in place of `error`. A result of work that was ended comes too late.
        """
        task, self.task = self.task, None
        if self.reason is None:
            return False
        if task is not None:
            self._stop()
            task.remove_done_callback(self._stop)
            for _ in range(self._cancels):
                task.uncancel()
            self._cancels = 0
        return error is None or (isinstance(error, asyncio.CancelledError) and not is_own_cancel(error))

    def taken(self) -> Exception:
        """Take the reason to raise it. One that stays would keep its frames alive, and these the scope."""
        reason, self.reason = self.reason, None
        assert reason is not None
        return reason

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.over(error):
            raise self.taken() from None
