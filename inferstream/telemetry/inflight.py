"""Bytes of the requests in flight: a meter and a bound of one process, and the share of each request."""

from collections.abc import Callable
from threading import Lock

from ..errors import InflightExceeded
from .meter_set import Single, counter, gauge

COUNTED_BYTES = 64 * 1024
"""Bytes of a request above which it counts. Smaller ones, of which ports and queues hold a limited number, do not."""

AHEAD = 4
"""Times the received bytes of a body for which there is room at once: an announcement alone takes none from others."""

WORTH_RETURNING = 128 * 2**20
"""Bytes in flight after which freed memory goes back to the kernel, once few are left."""


class InflightBytes(Single):
    """Counts bodies that are received or served, and decoded tensors that wait, of all ports of this process."""

    held: int = gauge("inferstream_inflight_bytes", "Bytes of requests in flight that count")
    refused: int = counter("inferstream_inflight_refused", "Requests refused because of max_inflight_bytes")

    def __init__(self, limit: int = 2**30) -> None:
        super().__init__()
        self.limit = limit
        self.on_fall: Callable[[], None] | None = None
        """Called once most of many bytes have been freed."""
        self._peak = 0
        self._lock = Lock()  # bodies are inflated in threads

    def bound(self, limit: int, front_ends: int, largest: int) -> None:
        """Take this process's share of a limit. Each front end has room for at least one body of the largest size."""
        self.limit = max(limit // front_ends, min(limit, largest))

    def check(self, size: int) -> None:
        """Raise InflightExceeded if there is no room for so many further bytes."""
        if self.held + size > self.limit:
            self.refused += 1
            raise InflightExceeded(self.limit)

    def change(self, size: int) -> None:
        """Count further bytes, or freed ones if `size` is negative. Raises InflightExceeded."""
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
    """What one request holds."""

    __slots__ = ("_announced", "_closed", "_inflight", "_received", "held")

    def __init__(self, inflight: InflightBytes, announced: int = 0) -> None:
        """`announced` is the size of the body, if it is known. Raises InflightExceeded for one without room."""
        if announced:
            inflight.check(announced)
        self._inflight = inflight
        self._announced = announced
        self._received = self.held = 0
        self._closed = False

    def add(self, size: int) -> None:
        """Hold further bytes. Raises InflightExceeded."""
        self._received += size
        self.receive(self._received)

    def receive(self, total: int) -> None:
        """Hold so many bytes at least, of which all have arrived. Raises InflightExceeded."""
        self.keep(max(self.held, total, min(self._announced, AHEAD * total)))

    def keep(self, size: int) -> None:
        """Hold so many bytes in all. Raises InflightExceeded."""
        if not self._closed and size != self.held:
            self._inflight.change(size - self.held)
            self.held = size

    def close(self) -> None:
        """Free all bytes, for good."""
        self.keep(0)
        self._closed = True
