"""Pauses and resumes reading from a connection."""

import asyncio
import select
from collections.abc import Callable, Hashable

PEER_CLOSED = getattr(select, "POLLRDHUP", 0)
LOOK = 0.1
"""Seconds between two checks of a paused connection."""


class Reading:
    """Pauses a transport while there is a reason to hold it.

    Without a reason it calls `resumed`, which takes what has arrived, and only then reads on: bytes that are read
    before would grow without bound if `resumed` finds another reason. A paused transport does not notice that its
    peer has closed, so a timer polls the kernel. It polls a peer that has only closed its sending side for a reset.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        resumed: Callable[[], None],
        half_closed: Callable[[], bool] | None = None,
    ) -> None:
        """`half_closed` returns whether the connection continues although its peer sends no more."""
        self._transport = transport
        self._resumed = resumed
        self._half_closed = half_closed
        self._is_half_closed = False
        self._loop = asyncio.get_running_loop()
        self._holds: set[Hashable] = set()
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held(self) -> bool:
        return bool(self._holds)

    def hold(self, reason: Hashable) -> None:
        """Pause reading until `release` is called with this reason."""
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()
            if self._timer is None:
                self._timer = self._loop.call_later(LOOK, self._look)
        self._holds.add(reason)

    def release(self, reason: Hashable) -> None:
        """Remove a reason; reading resumes without one."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds:
                self.resume()

    def resume(self) -> None:
        """Remove all reasons, and resume reading in the next turn of the event loop."""
        self._holds.clear()
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._paused and not self._holds:
            self._resumed()
            if not self._holds:
                self._read_on()

    def expect_reset(self) -> None:
        """Abort the connection when its peer, which sends no more, does not receive either."""
        self._is_half_closed = True
        self.stop()
        self._timer = self._loop.call_later(LOOK / 10, self._look)

    def _read_on(self) -> None:
        if not self._is_half_closed:
            self.stop()
        if self._paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = False

    def close(self) -> None:
        """End all holds and checks, because the connection is closed, or another protocol reads it."""
        self._holds.clear()
        self._is_half_closed = False
        self._read_on()
        self._half_closed = (
            None  # these refer to the connection, which refers to this: no work for the collector
        )
        self._resumed = _nothing

    def stop(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        poll = select.poll()
        descriptor = self._transport.get_extra_info("socket").fileno()
        poll.register(descriptor, 0 if self._is_half_closed else PEER_CLOSED)  # a reset is always reported
        self._timer = self._loop.call_later(LOOK, self._look)
        for _, event in poll.poll(0):
            if event != PEER_CLOSED or self._half_closed is None or not self._half_closed():
                self.stop()
                self._transport.abort()


def _nothing() -> None:
    """Resume nothing."""
