"""Whether a connection is read from: not while there is a reason against it, of which there may be several."""

import asyncio
import select
from collections.abc import Callable, Hashable

PEER_CLOSED = getattr(select, "POLLRDHUP", 0)
LOOK = 0.1
"""Seconds between two looks at a connection that is not read from."""


class Reading:
    """Pauses a transport while anybody holds it, and calls `resumed` when nobody does any more.

    A transport that does not read is never told that its peer has closed, so the kernel is asked.
    """

    def __init__(self, transport: asyncio.Transport, resumed: Callable[[], None]) -> None:
        self._transport = transport
        self._resumed = resumed
        self._loop = asyncio.get_running_loop()
        self._holds: set[Hashable] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held(self) -> bool:
        return bool(self._holds)

    def hold(self, reason: Hashable) -> None:
        """Read nothing more, for this reason, until it is released."""
        if not self._holds and not self._transport.is_closing():
            self._transport.pause_reading()
            self._timer = self._loop.call_later(LOOK, self._look)
        self._holds.add(reason)

    def release(self, reason: Hashable) -> None:
        """This reason not to read is gone."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds:
                self.resume()

    def resume(self) -> None:
        """Read on, whatever held."""
        self.stop()
        self._holds.clear()
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self._loop.call_soon(self._resumed)

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), PEER_CLOSED)
        if poll.poll(0):
            self._transport.abort()
        else:
            self._timer = self._loop.call_later(LOOK, self._look)
