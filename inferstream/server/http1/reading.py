"""Pause and resume reading from a connection."""

import asyncio
import select
from collections.abc import Callable, Hashable

PEER_CLOSED = getattr(select, "POLLRDHUP", 0)
CHECK_INTERVAL_SECONDS = 0.1
"""Seconds between checks of a paused connection."""


class Reading:
    """Pauses reading from a transport while any reason to pause is registered.

    Once the last reason is removed, it calls `resumed`, which processes the buffered bytes, and only then
    resumes reading. So the buffer stays bounded if `resumed` adds another reason.

    A paused transport does not detect that its peer has disconnected, so a timer polls the kernel. If the
    peer has only closed its sending side, the timer polls for a reset.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        resumed: Callable[[], None],
        half_closed: Callable[[], bool] | None = None,
    ) -> None:
        """`half_closed` returns whether the connection stays open after the peer closed its sending side."""
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
        """Pause reading until `release` is called with the same reason."""
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()
            if self._timer is None:
                self._timer = self._loop.call_later(CHECK_INTERVAL_SECONDS, self._poll)
        self._holds.add(reason)

    def release(self, reason: Hashable) -> None:
        """Remove a reason. Reading resumes after the last one."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds:
                self.resume()

    def resume(self) -> None:
        """Remove all reasons, and resume reading in the next loop iteration."""
        self._holds.clear()
        self._loop.call_soon(self._resume_if_released)

    def _resume_if_released(self) -> None:
        if self._paused and not self._holds:
            self._resumed()
            if not self._holds:
                self._resume_reading()

    def expect_reset(self) -> None:
        """Watch a peer that closed its sending side, and abort the connection if the peer resets it."""
        self._is_half_closed = True
        self.stop()
        self._timer = self._loop.call_later(CHECK_INTERVAL_SECONDS / 10, self._poll)

    def _resume_reading(self) -> None:
        if not self._is_half_closed:
            self.stop()
        if self._paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = False

    def close(self) -> None:
        """Remove all reasons and stop the checks.

        Called when the connection is closed or handed over to another protocol.
        """
        self._holds.clear()
        self._is_half_closed = False
        self._resume_reading()
        self._half_closed = None  # breaks a reference cycle, which the garbage collector would have to free
        self._resumed = _do_nothing

    def stop(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self) -> None:
        poll = select.poll()
        descriptor = self._transport.get_extra_info("socket").fileno()
        poll.register(descriptor, 0 if self._is_half_closed else PEER_CLOSED)  # a reset is always reported
        self._timer = self._loop.call_later(CHECK_INTERVAL_SECONDS, self._poll)
        for _, event in poll.poll(0):
            if event != PEER_CLOSED or self._half_closed is None or not self._half_closed():
                self.stop()
                self._transport.abort()


def _do_nothing() -> None:
    """Do nothing."""
