"""Pieces that a function sends while it runs."""

import threading
from collections.abc import Callable

import pytest

from inferstream.compat.torchserve.pieces import AHEAD, pieces_of
from inferstream.errors import Abandoned

Send = Callable[[int], None]


def test_pieces_come_in_order_and_what_is_returned_last() -> None:
    def function(send: Send) -> int:
        for each in range(3 * AHEAD):
            send(each)
        return -1

    assert [*pieces_of(function)] == [*range(3 * AHEAD), -1]


def test_an_error_comes_after_the_pieces() -> None:
    def function(send: Send) -> int:
        send(1)
        raise KeyError("gone")

    pieces = pieces_of(function)
    assert next(pieces) == 1
    with pytest.raises(KeyError):
        next(pieces)


def test_a_reader_who_leaves_ends_the_function() -> None:
    ended = threading.Event()

    def function(send: Send) -> int:
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
