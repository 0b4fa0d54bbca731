"""What model code may ask about the request it is working on."""

import time
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any


class RequestContext:
    """One request as its model sees it: how long there is, and whether anybody still waits.

    Async code is cancelled and generators are closed; blocking code that works for long looks at
    `cancelled` now and then, and stops.
    """

    __slots__ = ("_deadline", "cancelled", "single", "thread")

    def __init__(self, remaining: float | None = None, single: bool = False) -> None:
        self._deadline = None if remaining is None else time.monotonic() + remaining
        self.single = single
        """Whether the client takes one response only, so that a model that streams may say all in one."""
        self.cancelled = False
        """Whether the client has left, or the request's time is over."""
        self.thread: Future[Any] | None = None
        """What the request occupies a thread with, done when that is free again; for whoever runs models."""

    @property
    def time_remaining(self) -> float | None:
        """Seconds until the deadline, negative after it; None for a request without one."""
        return None if self._deadline is None else self._deadline - time.monotonic()


_current: ContextVar[RequestContext | None] = ContextVar("request_context", default=None)


def request_context() -> RequestContext:
    """The context of the request whose model code is running. Raises RuntimeError outside of model code."""
    context = _current.get()
    if context is None:
        raise RuntimeError("there is a request context only in a model's predict, predict_stream and admit")
    return context


enter = _current.set
"""Make a context the current one, for the task or thread that is about to run model code."""
