"""Bytes of the requests in flight: their bound in one process, and the share of each request."""

from collections.abc import Callable
from threading import Lock
from typing import Self

COUNTED_BYTES = 64 * 1024
"""Bytes of a request above which it counts. Smaller ones, of which ports and queues hold a limited number, do not."""

AHEAD = 4
"""Times the received bytes of a body for which there is room at once: an announcement alone takes none from others."""

WORTH_RETURNING = 128 * 2**20
"""Bytes in flight after which freed memory goes back to the kernel, once few are left."""


class NoRoom(Exception):
    """A request has no room beside those in flight."""

    message = "The requests in flight take all bytes that they may."
    retry_after = 1
    """Seconds after which another attempt may succeed."""


class InflightBytes:
    """Counts bodies that are received or served, and decoded tensors that wait, of all ports of a process."""

    def __init__(self, limit: int = 2**30, refuse: Callable[[int], NoRoom] = NoRoom) -> None:
        """`refuse` makes the error of a request beyond the limit."""
        self.limit = limit
        self.held = 0
        self.refused = 0
        self.on_fall: Callable[[], object] | None = None
        """Called once most of many bytes have been freed."""
        self._refuse = refuse
        self._peak = 0
        self._lock = Lock()  # calls may wait in the queues of other event loops

    def bound(self, limit: int, front_ends: int, largest: int) -> None:
        """Take this process's share of a limit. Each front end has room for at least one body of the largest size."""
        self.limit = max(limit // front_ends, min(limit, largest))

    def check(self, size: int) -> None:
        """Raise NoRoom if there is none for so many further bytes."""
        if self.held + size > self.limit:
            self.refused += 1
            raise self._refuse(self.limit)

    def change(self, size: int) -> None:
        """Count further bytes, or freed ones if `size` is negative. Raises NoRoom."""
        with self._lock:
            if size > 0:
                self.check(size)
            self.held += size
            self._peak = max(self._peak, self.held)
            fell = self._peak >= WORTH_RETURNING and self.held * 4 <= self._peak
            if fell:
                self._peak = self.held
        if fell and self.on_fall is not None:
            self.on_fall()


class RequestBytes:
    """What one request holds, until `close` or the end of a `with` block."""

    __slots__ = ("_announced", "_closed", "_inflight", "_received", "held")

    def __init__(self, inflight: InflightBytes, announced: int = 0) -> None:
        """`announced` is the size of the body, if it is known. Raises NoRoom if there is no room for it now."""
        if (
            0 < announced <= inflight.limit
        ):  # a larger one exceeds the limit of bodies too, which is the better error
            inflight.check(announced)
        self._inflight = inflight
        self._announced = announced
        self._received = self.held = 0
        self._closed = False

    def add_whole(self, size: int) -> None:
        """Hold a whole request, unless it is small. Raises NoRoom."""
        if size > COUNTED_BYTES:
            self.add(size)

    def add(self, size: int) -> None:
        """Hold further bytes. Raises NoRoom."""
        self._received += size
        self.receive(self._received)

    def receive(self, total: int) -> None:
        """Hold so many bytes at least, of which all have arrived. Raises NoRoom."""
        self.keep(max(self.held, total, min(self._announced, AHEAD * total)))

    def keep(self, size: int) -> None:
        """Hold so many bytes in all. Raises NoRoom."""
        if not self._closed and size != self.held:
            self._inflight.change(size - self.held)
            self.held = size

    def close(self) -> None:
        """Free all bytes, for good."""
        self.keep(0)
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
