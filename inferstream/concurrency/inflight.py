"""A per-process limit on the bytes of requests in flight, and the share of each request."""

from collections.abc import Callable
from math import inf
from threading import RLock, get_ident
from time import monotonic
from typing import Protocol, Self

COUNTED_BYTES = 64 * 1024
"""The size in bytes above which a request counts. Ports and queues limit the number of smaller ones."""

AHEAD = 4
"""The room reserved for a request, as a multiple of the bytes received so far.

Therefore, a large Content-Length on its own takes no room from other requests.
"""

FAIR_RATE = 256 * 1024
"""The upload rate, in bytes per second, below which a request can be dropped to make room for others."""

FAIR_SECONDS = 5.0
"""The age, in seconds, at which the upload rate of a body starts to count."""

CHECK_INTERVAL_SECONDS = 0.1
"""The interval, in seconds, until the next search for slow uploads if one has found none."""

WORTH_RETURNING = 128 * 2**20
"""The peak, in bytes, above which freed memory is returned to the system once few bytes are in flight."""


class NoRoom(Exception):
    """The bytes in flight leave no room for a request."""

    message = "The requests in flight take all bytes that they may."
    retry_after = 1
    """Seconds after which another attempt may succeed."""


class Uploader(Protocol):
    """The client that sends a body."""

    @property
    def receiving(self) -> bool:
        """Whether the body is incomplete."""

    def time_out(self) -> None:
        """End the request, because the client is too slow."""


class InflightBytes:
    """Counts the bytes of request bodies and queued tensors, for all ports of a process."""

    def __init__(self, limit: int = 2**30, refuse: Callable[[int], NoRoom] = NoRoom) -> None:
        """`refuse` creates the error for a request beyond the limit."""
        self.limit = limit
        self.held = 0
        self.refused = 0
        self.on_fall: Callable[[], object] | None = None
        """Called when most of a large number of bytes have been freed."""
        self._refuse = refuse
        self._peak = 0
        self._lock = RLock()  # calls can be queued in other event loops
        self.uploads: set[RequestBytes] = set()
        self._thread = get_ident()
        self._looked = 0.0

    def set_limit(self, limit: int, front_ends: int, largest: int) -> None:
        """Set this process's share of a limit, with room for at least one body of the maximum size."""
        self.limit = max(limit // front_ends, min(limit, largest))

    def check(self, size: int, asking: "RequestBytes") -> None:
        """Make room for `size` more bytes by ending slow uploads. Raises NoRoom if that is not enough."""
        while self.held + size > self.limit:
            slowest = self._slowest(asking)
            if slowest is None:
                self.refused += 1
                raise self._refuse(self.limit)
            slowest.time_out()

    def _slowest(self, asking: "RequestBytes") -> "RequestBytes | None":
        """Return the slowest upload, or None if all rates are fair.

        Only the thread that serves the ports may end uploads.
        """
        now = monotonic()
        if get_ident() != self._thread or now - self._looked < CHECK_INTERVAL_SECONDS:
            return None
        rate, slowest = float(FAIR_RATE), None
        for each in self.uploads:
            if each is not asking and (its := each.rate(now)) < rate:
                rate, slowest = its, each
        if slowest is None:
            self._looked = now
        return slowest

    def watch(self, upload: "RequestBytes") -> None:
        """Watch the rate of an upload. Called in the thread that serves the ports."""
        self._thread = get_ident()
        self.uploads.add(upload)

    def change(self, size: int, asking: "RequestBytes") -> None:
        """Count additional bytes, or freed bytes if `size` is negative. Raises NoRoom."""
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
    """The bytes of one request, reserved until `close` or the end of a `with` block."""

    __slots__ = ("_announced", "_closed", "_inflight", "_received", "_since", "_upload", "held")

    def __init__(self, inflight: InflightBytes, announced: int = 0, upload: Uploader | None = None) -> None:
        """`announced` is the size of the body, if known. Raises NoRoom if it does not fit at the moment.

        An `upload` that is too slow is ended if other requests need its room.
        """
        # A larger body also exceeds the body limit, whose error is more helpful.
        if 0 < announced <= inflight.limit:
            inflight.check(announced, self)
        self._inflight = inflight
        self._announced = announced
        self._received = self.held = 0
        self._closed = False
        self._since = 0.0
        self._upload = upload

    def add_whole(self, size: int) -> None:
        """Reserve the bytes of a whole request, unless it is small. Raises NoRoom."""
        if size > COUNTED_BYTES:
            self.add(size)

    def add(self, size: int) -> None:
        """Reserve additional bytes. Raises NoRoom."""
        self.receive(self._received + size)

    def receive(self, total: int) -> None:
        """Reserve at least `total` bytes, all of which have arrived. Raises NoRoom."""
        self.resize(max(self.held, total, min(self._announced, AHEAD * total)))
        self._received = total

    def resize(self, size: int) -> None:
        """Reserve exactly `size` bytes. Raises NoRoom."""
        if not self._closed and size != self.held:
            self._inflight.change(size - self.held, self)
            if self._upload is not None and not self.held:
                self._since = monotonic()
                self._inflight.watch(self)
            elif not size:
                self._inflight.uploads.discard(self)
            self.held = self._received = size

    def rate(self, now: float) -> float:
        """Return the upload rate in bytes per second. Infinite for a body that is new or complete."""
        age = now - self._since
        is_sent = age > FAIR_SECONDS and self._upload is not None and self._upload.receiving
        return self._received / age if is_sent else inf

    def time_out(self) -> None:
        """End the upload."""
        if self._upload is not None:
            self._upload.time_out()
        self.close()

    def close(self) -> None:
        """Release all bytes permanently."""
        self.resize(0)
        self._closed = True
        self._upload = None  # breaks a reference cycle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
