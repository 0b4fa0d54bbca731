"""Drives a coroutine by stretches. A stretch runs between two awaits and holds the event loop."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Generator
from time import perf_counter
from types import coroutine
from typing import Any, Protocol


class Stretches(Protocol):
    """Observes and delays the stretches of coroutines."""

    def turn(self) -> "asyncio.Future[None] | None":
        """A future to await before the next stretch; None if it may run at once."""

    def began(self) -> None:
        """A stretch begins, and holds the event loop."""

    def ended(self, seconds: float) -> None:
        """A stretch has held the event loop for this time."""


class Hold(Protocol):
    """Learns when code of a model holds the event loop. Stretches may be inside each other."""

    def began(self) -> None: ...

    def ended(self) -> None: ...


class NoHold:
    """The event loop serves no clients, or those of another server."""

    def began(self) -> None: ...

    def ended(self) -> None: ...


@coroutine
def in_stretches(awaitable: Awaitable[Any], stretches: Stretches) -> Generator[Any, Any, Any]:
    """Await `awaitable`, and report each of its stretches to `stretches`."""
    steps = awaitable.__await__()
    thrown: list[BaseException] = []  # emptied at once: an error in a local of this frame would be a cycle
    while True:
        turn = stretches.turn()
        if turn is not None:
            try:
                yield from turn
            except BaseException as error:  # the model gets every one
                thrown.append(error)
        stretches.began()
        started = perf_counter()
        try:
            waits_for = steps.throw(thrown.pop()) if thrown else next(steps)
        except StopIteration as end:
            return end.value
        finally:
            stretches.ended(perf_counter() - started)
        try:
            yield waits_for
        except BaseException as error:  # the model gets every one
            thrown.append(error)


class Turns:
    """Turns the event loop between two stretches, so that it reads its sockets."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def turn(self) -> "asyncio.Future[None] | None":
        if not self._taken:
            self._taken = True
            return None
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        return waiter

    def began(self) -> None:
        self._hold.began()

    def ended(self, _: float) -> None:
        self._hold.ended()
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._taken = False
