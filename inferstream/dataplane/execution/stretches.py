"""Drives a coroutine stretch by stretch: what runs between two of its awaits, and holds the event loop."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Generator
from time import perf_counter
from types import coroutine
from typing import Any, Protocol


class Stretches(Protocol):
    """What is told of the stretches of coroutines that it lets run."""

    def ended(self, seconds: float) -> None:
        """A stretch has held the event loop for so long."""

    def turn(self) -> "asyncio.Future[None] | None":
        """What to wait for before the next stretch; None when it may run at once."""


@coroutine
def in_stretches(awaitable: Awaitable[Any], stretches: Stretches) -> Generator[Any, Any, Any]:
    """Await `awaitable`, and tell `stretches` of each of its stretches."""
    steps = awaitable.__await__()
    thrown: list[BaseException] = []  # emptied at once: an error kept in a local of this frame is a cycle
    while True:
        turn = stretches.turn()
        if turn is not None:
            try:
                yield from turn
            except BaseException as error:
                thrown.append(error)
        started = perf_counter()
        try:
            waits_for = steps.throw(thrown.pop()) if thrown else next(steps)
        except StopIteration as end:
            return end.value
        finally:
            stretches.ended(perf_counter() - started)
        try:
            yield waits_for
        except BaseException as error:
            thrown.append(error)


class Turns:
    """Lets the event loop turn between two stretches, so that it reads what has come on its sockets."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def turn(self) -> "asyncio.Future[None] | None":
        if not self._taken:
            self._taken = True
            return None
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        return waiter

    def ended(self, _: float) -> None:
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._taken = False
