"""Responses on their way out: what leaves together, how long a stream keeps the event loop, who is dropped.

`server/http2` has bounds of its own, because it knows nothing of the package around it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from time import perf_counter
from typing import Any, ClassVar, Protocol

TOGETHER_BYTES = 32 * 1024
"""Bytes of small messages that leave together, and one message more: the system call is most of what each costs."""

WAITED_SECONDS = 0.0001
"""Seconds after which a message leaves alone: it has been waited for."""

TURN_SECONDS = 0.001
"""Seconds that a stream may go on without letting others run: a model that never waits would keep the loop."""

OWED_BYTES = 64 * 1024
"""Bytes to a client that does not read, above which nothing more is read from it."""


class Source(Protocol):
    """A stream: a reply, or events that are recorded."""

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def aclose(self, error: BaseException | None) -> None: ...


async def give(reply: Source, take: Callable[[Any], Awaitable[None] | None]) -> None:
    """Give each response to `take`, which returns what comes before the next one: nothing, or an awaitable.

    `reply.aclose(None)` is one, for a client that wants no further response.
    """
    turned = perf_counter()  # the clock of uvloop stands still while a callback runs
    async for response in reply:
        waiting = take(response)
        # Freed now: with hundreds of streams it would leave the core's caches before the next one.
        del response
        if waiting is not None:
            await waiting
        if perf_counter() - turned > TURN_SECONDS:
            await asyncio.sleep(0)
            turned = perf_counter()


class Holdable(Protocol):
    """Reading from a connection, which stops while there is a reason to hold it."""

    def hold(self, reason: Hashable) -> None: ...

    def release(self, reason: Hashable) -> None: ...


class Owed:
    """Bytes to a client that does not read, which stop the reading from it while they are many."""

    __slots__ = ("_bytes", "_reading")

    def __init__(self, reading: Holdable) -> None:
        self._reading = reading
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count bytes to send, or sent ones if `size` is negative."""
        self._bytes += size
        if self._bytes > OWED_BYTES:
            self._reading.hold(Owed)
        elif size < 0:
            self._reading.release(Owed)

    def clear(self) -> None:
        """The client has read."""
        self._bytes = 0
        self._reading.release(Owed)


class StallGuard:
    """Drops a client that has read nothing for `stall` seconds. A single timer watches a whole stream."""

    kind: ClassVar[str] = "stream"
    logger: ClassVar[logging.Logger]

    def __init__(self, stall: float, interval: float) -> None:
        """`idle` is called about every `interval` seconds in which nothing waits for the client."""
        self._stall = stall
        self._interval = min(interval, stall / 4)
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        """When the client stopped reading what waits for it; None while nothing waits."""
        self._timer: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Let the client go."""
        raise NotImplementedError

    def idle(self, now: float) -> bool:
        """Nothing waits for the client. False if the guard is to look no more."""
        return True

    def _guard(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if self._waiting_since is None:
            if not self.idle(now):
                return
        elif now - self._waiting_since >= self._stall:
            self.logger.warning(
                "a %s's client has read nothing for %g s; dropping it", self.kind, self._stall
            )
            self.drop()
            return
        self._guard()

    def _leave_alone(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
