"""Pieces that a function sends while it runs."""

import threading
from collections.abc import Callable

import pytest

from inferstream.concurrency.pieces import AHEAD, pieces_of
from inferstream.errors import Abandoned

Send = Callable[[int], None]


def test_pieces_are_delivered_in_order() -> None:
    def function(send: Send) -> None:
        for each in range(3 * AHEAD):
            send(each)

    assert [*pieces_of(function)] == [*range(3 * AHEAD)]


def test_error_follows_the_pieces() -> None:
    def function(send: Send) -> None:
        send(1)
        raise KeyError("gone")

    pieces = pieces_of(function)
    assert next(pieces) == 1
    with pytest.raises(KeyError):
        next(pieces)


def test_closing_the_reader_ends_the_function() -> None:
    ended = threading.Event()

    def function(send: Send) -> None:
        try:
            while True:
                send(1)
        except Abandoned:
            ended.set()
            raise

    pieces = pieces_of(function)
    assert next(pieces) == 1
    pieces.close()  # type: ignore[attr-defined]
    assert ended.is_set()
