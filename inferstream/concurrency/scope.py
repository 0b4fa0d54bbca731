"""Scopes, which let other code cancel the work of a task with a reason.

This is the only module that cancels request tasks. Model code may spend a long time in a `finally` block,
swallow the cancellation, or raise its own CancelledError.
"""

import asyncio
import logging
from typing import Self

logger = logging.getLogger("inferstream.model")

PATIENCE = 5.0
"""The interval, in seconds, at which a task is cancelled again if its work does not end."""


class ClientLeft(Exception):
    """The client has disconnected, so its work is cancelled.

    Nothing can be sent to it or received from it.
    """


FAILURES = (Exception, asyncio.CancelledError)
"""Errors that stop the work of a task but not the process."""


def is_own_cancel(error: BaseException) -> bool:
    """Whether the current task was cancelled.

    Model code and libraries may raise CancelledError although it was not.
    """
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def swallowed_cancellation() -> BaseException:
    """Return the cancellation of the current task that model code swallowed, to be raised again."""
    return asyncio.CancelledError()


class Scope:
    """Work in `task` that other code can cancel.

    If `task` is None, the work is not waiting and checks `reason` later. `with scope:` raises the reason
    instead of the cancellation. A cancellation by other code is passed on, even if both happen, because its
    target is the code around the scope. Code that runs in each call uses `over` and `take_reason`, because
    `with` takes 0.3 µs.
    """

    __slots__ = ("_cancels", "_timer", "reason", "task")

    _cancels: int
    _timer: asyncio.Handle | None
    """Both are set by `end`, because most scopes are never ended from outside."""

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.task = task
        self.reason: Exception | None = None

    def end(self, reason: Exception) -> None:
        """Cancel the task now, and again every `PATIENCE` seconds until its work is over.

        Only the first call has an effect.
        """
        if self.reason is not None:
            return
        self.reason = reason
        self._cancels = 0
        self._timer = None
        if (task := self.task) is None:
            return
        # Otherwise the timer would keep the task, and with it the request, alive for seconds.
        task.add_done_callback(self._stop)
        loop = task.get_loop()
        if asyncio.current_task(loop) is task:
            self._timer = loop.call_soon(self._cancel)  # cancelling it now could outlive the work
        else:
            self._cancel()

    def _cancel(self) -> None:
        task = self.task
        if task is None or task.done():
            return
        if self._cancels:
            why = type(self.reason).__name__
            logger.error(
                "model code is still running %g s after its cancellation (%s); cancelling it again",
                PATIENCE,
                why,
            )
        self._cancels += 1
        task.cancel()
        self._timer = task.get_loop().call_later(PATIENCE, self._cancel)

    def _stop(self, _: object = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def over(self, error: BaseException | None = None) -> bool:
        """End the scope after its work, with `error` if it failed, and undo the cancellations.

        Undoing them is necessary because the task continues. Returns whether to raise the reason instead of
        `error`. That is also the case if the work returned a result after it was ended.
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

    def take_reason(self) -> Exception:
        """Remove and return the reason, to raise it. Keeping it would keep its frames and the scope alive."""
        reason, self.reason = self.reason, None
        assert reason is not None
        return reason

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.over(error):
            raise self.take_reason() from None
