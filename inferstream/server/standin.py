"""A thread that serves what cannot wait while code of a model holds the event loop.

Some code must run on the server's event loop, because its objects belong to that loop: an `async def load`, and an
`async def predict` that awaits. If it blocks, the loop reads no socket. A kubelet then kills the server, and clients of
gRPC whose PINGs get no acknowledgement drop their connections. So a thread acts in place of the loop after a quarter
of a second. Each responder of a `StandIn` says what the thread does.

The thread acts only while the loop runs such code, and never when other code blocks the loop. It uses sockets only then
and under a lock. The loop takes the same lock when the code returns, so both never use one socket.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Iterator
from time import monotonic
from typing import Any, Protocol

from ..dataplane.execution.stretches import in_stretches
from ..telemetry.context import model_name_var

logger = logging.getLogger("inferstream.model")

BLOCKED_AFTER = 0.25
"""Seconds for which code of a model may hold the event loop before the thread acts."""

LOOK_EVERY = 0.05
"""Seconds between two looks of the thread."""

LINGERING = 1.0
"""Seconds without such code after which the thread ends."""


class Hold:
    """A stretch of model code that holds the event loop; `until` is when the thread stops acting."""

    __slots__ = ("loads", "until")

    def __init__(self, until: float, loads: bool) -> None:
        self.until = until
        self.loads = loads
        """Whether the code is a `load` or `unload`."""


class Responder(Protocol):
    """What the thread does."""

    def respond(self, hold: Hold) -> Iterator[None]:
        """Serve clients once, in the thread. The event loop may go on at each `yield`, and then nothing follows."""

    def turned(self) -> None:
        """Continue on the event loop, which turns again."""


class StandIn:
    """The thread, while it is needed, and its responders. `limit` is the number of seconds for which it acts.

    For a `load` they count from its beginning, for other code from the beginning of a stretch.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._responders: list[Responder] = []
        self._lock = (
            threading.RLock()
        )  # the garbage collector may close a coroutine of a model at any allocation
        self._hold: Hold | None = None
        """None while the event loop runs no such code."""
        self._depth = 0
        """Stretches inside each other: code of a model may call another model."""
        self._turned_at: float | None = None
        """When such code first ran in this turn of the event loop, or None."""
        self._needed_at = 0.0
        """When such code last began."""
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def add(self, responder: Responder) -> None:
        self._responders.append(responder)

    async def during(self, loading: Awaitable[Any]) -> Any:
        """Await a `load` or `unload` that may block this event loop."""
        load = _Load(self, monotonic() + self._limit)
        try:
            return await in_stretches(loading, load)
        finally:
            if load.longest > BLOCKED_AFTER:
                logger.warning(
                    "model %s: its load or unload awaits and also blocks: it held the event loop for %.1f s, and "
                    "requests waited. Write what blocks as `def`, call it with asyncio.to_thread, or set "
                    "parallel_workers.",
                    model_name_var.get(),
                    load.longest,
                )

    def began(self) -> None:
        """The event loop is about to run code of an inference."""
        self.hold(Hold(monotonic() + self._limit, False))

    def hold(self, hold: Hold) -> None:
        """The event loop is about to run code of a model, until `ended`."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._hold = hold
            if self._turned_at is not None:
                return  # several models may run in one turn
            self._turned_at = self._needed_at = monotonic()
            loop.call_soon(self._turned)
            if self._thread is not None or self._closing.is_set():
                return
            thread = self._thread = threading.Thread(target=self._run, name="stand-in", daemon=True)
        thread.start()

    def ended(self) -> None:
        """The code has returned to the event loop."""
        if self._depth == 1:
            self._hold = None  # before the lock, so that the thread does not take it again
        with self._lock:
            self._depth -= 1

    def close(self) -> None:
        """End the thread, and start no other."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(LOOK_EVERY)  # it holds no lock for long, and is a daemon

    def _turned(self) -> None:
        with self._lock:
            self._turned_at = None
        for responder in self._responders:
            responder.turned()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_EVERY):
            with self._lock:
                hold = self._hold
                if hold is None and monotonic() > self._needed_at + LINGERING:
                    self._thread = None
                    return
            if hold is not None:
                for responder in self._responders:
                    self._respond(hold, responder.respond(hold))

    def _respond(self, hold: Hold, steps: Iterator[None]) -> None:
        """Take steps of a responder until it has no more, or the event loop is free."""
        try:
            while True:
                with self._lock:
                    if not self._must_respond(hold):
                        return
                    next(steps)
        except StopIteration:
            return
        except Exception:
            logger.exception("clients were not served while the event loop was held")

    def _must_respond(self, hold: Hold) -> bool:
        if self._hold is not hold or self._turned_at is None:
            return False
        return self._turned_at + BLOCKED_AFTER < monotonic() < hold.until


class _Load:
    """The stretches of one `load`."""

    def __init__(self, stand_in: StandIn, until: float) -> None:
        self._stand_in = stand_in
        self._until = until
        self.longest = 0.0
        """Seconds of the longest stretch for which it held the event loop."""

    def turn(self) -> None:
        """Never delay a stretch."""

    def began(self) -> None:
        self._stand_in.hold(Hold(self._until, True))

    def ended(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)
        self._stand_in.ended()
