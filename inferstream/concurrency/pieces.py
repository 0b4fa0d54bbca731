"""Iterates over values that a callback-based function sends while it runs."""

from collections.abc import Callable, Iterator
from contextvars import copy_context
from queue import Queue
from threading import Event, Thread
from typing import NamedTuple, TypeVar

from ..errors import Abandoned

T = TypeVar("T")

AHEAD = 16
"""The maximum number of values that are sent but not yet read."""


class LastPiece(NamedTuple):
    """Marks the end of the values, and contains the function's error, if any."""

    error: BaseException | None = None


def pieces_of(function: Callable[[Callable[[T], None]], None]) -> Iterator[T]:
    """Iterate over the values that `function` sends, in any thread, until it returns.

    The function runs in a separate thread, which stops before the iterator does. If the reader stops early,
    the next value that the function sends raises Abandoned.
    """
    queue: Queue[T | LastPiece] = Queue(AHEAD)
    left = Event()

    def send(piece: T) -> None:
        if left.is_set():
            raise Abandoned
        queue.put(piece)

    def run() -> None:
        end = LastPiece()
        try:
            function(send)
        except BaseException as error:  # the reader receives every error
            end = LastPiece(error)
        queue.put(end)

    thread = Thread(target=copy_context().run, args=(run,), daemon=True)
    thread.start()
    item: T | LastPiece | None = None
    try:
        while not isinstance(item := queue.get(), LastPiece):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        left.set()
        while not isinstance(item, LastPiece):
            item = queue.get()
        thread.join()
