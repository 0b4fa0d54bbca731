"""Bytes of the requests in flight: their bound in one process, and the share of each request."""

from collections.abc import Callable
from math import inf
from threading import RLock, get_ident
from time import monotonic
from typing import Protocol, Self

COUNTED_BYTES = 64 * 1024
"""Bytes of a request above which it counts. Smaller ones, of which ports and queues hold a limited number, do not."""

AHEAD = 4
"""Times the received bytes of a body for which there is room at once: an announcement alone takes none from others."""

FAIR_RATE = 256 * 1024
"""Bytes a second of a body below which it loses its room if there is none for others."""

FAIR_SECONDS = 5.0
"""Age from which the rate of a body counts."""

LOOK_SECONDS = 0.1
"""Time after which slow bodies are looked for again if there was none."""

WORTH_RETURNING = 128 * 2**20
"""Bytes in flight after which freed memory goes back to the kernel, once few are left."""


class NoRoom(Exception):
    """A request has no room beside those in flight."""

    message = "The requests in flight take all bytes that they may."
    retry_after = 1
    """Seconds after which another attempt may succeed."""


class Upload(Protocol):
    """The client of a body."""

    @property
    def receiving(self) -> bool:
        """Whether the body has not arrived completely."""

    def time_out(self) -> None:
        """End the request, because the client takes too long."""


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
        self._lock = RLock()  # calls may wait in the queues of other event loops
        self.uploads: set[RequestBytes] = set()
        self._thread = get_ident()
        self._looked = 0.0

    def bound(self, limit: int, front_ends: int, largest: int) -> None:
        """Take this process's share of a limit. Each front end has room for at least one body of the largest size."""
        self.limit = max(limit // front_ends, min(limit, largest))

    def check(self, size: int, asking: "RequestBytes") -> None:
        """Make room for so many further bytes by ending slow uploads. Raises NoRoom if that is not enough."""
        while self.held + size > self.limit:
            slowest = self._slowest(asking)
            if slowest is None:
                self.refused += 1
                raise self._refuse(self.limit)
            slowest.time_out()

    def _slowest(self, asking: "RequestBytes") -> "RequestBytes | None":
        """The slowest upload, unless its rate is fair. Only the thread of the ports may end one."""
        now = monotonic()
        if get_ident() != self._thread or now - self._looked < LOOK_SECONDS:
            return None
        rate, slowest = float(FAIR_RATE), None
        for each in self.uploads:
            if each is not asking and (its := each.rate(now)) < rate:
                rate, slowest = its, each
        if slowest is None:
            self._looked = now
        return slowest

    def watch(self, upload: "RequestBytes") -> None:
        """Watch the rate of an upload. Called in the thread of the ports."""
        self._thread = get_ident()
        self.uploads.add(upload)

    def change(self, size: int, asking: "RequestBytes") -> None:
        """Count further bytes, or freed ones if `size` is negative. Raises NoRoom."""
        with self._lock:
            if size > 0:
                self.check(size, asking)
            self.held += size
            self._peak = max(self._peak, self.held)
            fell = self._peak >= WORTH_RETURNING and self.held * 4 <= self._peak
            if fell:
                self._peak = self.held
        if fell and self.on_fall is not None:
            self.on_fall()


class RequestBytes:
    """What one request holds, until `close` or the end of a `with` block."""

    __slots__ = ("_announced", "_closed", "_inflight", "_received", "_since", "_upload", "held")

    def __init__(self, inflight: InflightBytes, announced: int = 0, upload: Upload | None = None) -> None:
        """`announced` is the size of the body, if it is known. Raises NoRoom if there is no room for it now.

        An `upload` is ended if others need its room and it is too slow.
        """
        # A larger one exceeds the limit of bodies too, which is the better error.
        if 0 < announced <= inflight.limit:
            inflight.check(announced, self)
        self._inflight = inflight
        self._announced = announced
        self._received = self.held = 0
        self._closed = False
        self._since = 0.0
        self._upload = upload

    def add_whole(self, size: int) -> None:
        """Hold a whole request, unless it is small. Raises NoRoom."""
        if size > COUNTED_BYTES:
            self.add(size)

    def add(self, size: int) -> None:
        """Hold further bytes. Raises NoRoom."""
        self.receive(self._received + size)

    def receive(self, total: int) -> None:
        """Hold so many bytes at least, of which all have arrived. Raises NoRoom."""
        self.keep(max(self.held, total, min(self._announced, AHEAD * total)))
        self._received = total

    def keep(self, size: int) -> None:
        """Hold so many bytes in all. Raises NoRoom."""
        if not self._closed and size != self.held:
            self._inflight.change(size - self.held, self)
            if self._upload is not None and not self.held:
                self._since = monotonic()
                self._inflight.watch(self)
            elif not size:
                self._inflight.uploads.discard(self)
            self.held = self._received = size

    def rate(self, now: float) -> float:
        """Bytes a second that the client sends; infinite for a body that is new, or whole."""
        age = now - self._since
        is_sent = age > FAIR_SECONDS and self._upload is not None and self._upload.receiving
        return self._received / age if is_sent else inf

    def time_out(self) -> None:
        """End the upload."""
        if self._upload is not None:
            self._upload.time_out()
        self.close()

    def close(self) -> None:
        """Free all bytes, for good."""
        self.keep(0)
        self._closed = True
        self._upload = None  # it refers to this

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
