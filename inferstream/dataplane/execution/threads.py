"""Runs a blocking generator in a thread, at the pace of its reader."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextvars import copy_context

from ...types import InferenceResponse
from .read_ahead import AHEAD, ReadAhead


class ThreadedResponses(ReadAhead):
    """An async iterator over a blocking one.

    Closing it makes the generator end at its next `yield`, where its `finally` runs, and tells it through
    its request context; Python offers no way to interrupt a thread, so closing does not wait for it.
    """

    def __init__(self, executor: Executor, start: Callable[[], Iterable[InferenceResponse]]) -> None:
        super().__init__()
        self._start = start
        self._room = threading.Semaphore(AHEAD)
        self._request.thread = executor.submit(copy_context().run, self._run)

    def _run(self) -> None:
        try:
            if not self._closed:
                self._drive()
        except BaseException as error:  # the reader gets it, whatever it is
            self._error = error
        finally:
            self._done = True
            self._wake()

    def _drive(self) -> None:
        responses = iter(self._start())
        try:
            for response in responses:
                self._room.acquire()
                if self._closed:
                    return
                self._items.append(response)
                if self._reader is not None:
                    self._wake()
        finally:
            close = getattr(responses, "close", None)
            if close is not None:
                close()

    def _took(self) -> None:
        self._room.release()

    async def aclose(self) -> None:
        self._closed = self._request.cancelled = True
        self._items.clear()
        self._room.release()
