"""Reads what a function sends while it runs: model code sends, and the server iterates."""

from collections.abc import Callable, Iterator
from contextvars import copy_context
from queue import Queue
from threading import Event, Thread
from typing import NamedTuple, TypeVar

from ..errors import Abandoned

T = TypeVar("T")

AHEAD = 16
"""Pieces that may be sent before they are read."""


class LastPiece(NamedTuple):
    """The end of the function."""

    error: BaseException | None = None


def pieces_of(function: Callable[[Callable[[T], None]], None]) -> Iterator[T]:
    """What `function` sends, in any thread, until it returns. It runs in a thread that ends before the iterator does.

    When the reader leaves, the next piece that it sends raises Abandoned.
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
        except BaseException as error:  # the reader gets every error
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
