"""What the response cache holds: answers of all models, in bounded room and for a bounded time."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from ...telemetry.caches import StoreMeters
from .snapshot import Snapshot

CacheKey = tuple[int, bytes]
"""Whose answer, and to what."""

LARGEST_SHARE = 4
"""An answer may take this part of the room, one in so many, so that none drives out all the others."""


class CachedResponses(NamedTuple):
    """The responses to a request; `single` if they are one whole answer and no stream."""

    responses: list[Snapshot]
    single: bool
    size: int
    until: float


class Store:
    """At most `entries` answers of `room` bytes in all; the one used longest ago makes way for a new one.

    What is still being recorded takes room too. `seconds` is how long answers are good for unless their
    model says otherwise, on this `clock`.
    """

    def __init__(
        self, entries: int, room: int, seconds: float, clock: Callable[[], float], meters: StoreMeters
    ) -> None:
        self.seconds = seconds
        self._entries = entries
        self._room = room
        self._clock = clock
        self._meters = meters
        self._cached: OrderedDict[CacheKey, CachedResponses] = OrderedDict()

    @property
    def largest(self) -> int:
        """Bytes that one answer may take."""
        return self._room // LARGEST_SHARE

    def get(self, key: CacheKey) -> CachedResponses | None:
        """The answer, unless there is none or it is too old."""
        entry = self._cached.get(key)
        if entry is None:
            return None
        if entry.until <= self._clock():
            self._drop(key)
            return None
        self._cached.move_to_end(key)
        return entry

    def reserve(self, size: int) -> bool:
        """Take room for so many bytes more of something being recorded; False if there is none to be made."""
        meters = self._meters
        while meters.bytes + size > self._room and self._cached:
            self._evict()
        if meters.bytes + size > self._room:
            return False
        meters.bytes += size
        return True

    def release(self, size: int) -> None:
        """Give back room that was reserved."""
        self._meters.bytes -= size

    def put(self, key: CacheKey, responses: list[Snapshot], single: bool, size: int, seconds: float) -> None:
        """Keep an answer, for which `size` bytes are reserved, for so many seconds."""
        if key in self._cached:
            self._drop(key)
        while len(self._cached) >= self._entries:
            self._evict()
        self._cached[key] = CachedResponses(responses, single, size, self._clock() + seconds)
        self._meters.entries += 1

    def forget(self, owner: int) -> None:
        """Drop every answer of one owner."""
        for key in [key for key in self._cached if key[0] == owner]:
            self._drop(key)

    def _evict(self) -> None:
        self._drop(next(iter(self._cached)))
        self._meters.evicted += 1

    def _drop(self, key: CacheKey) -> None:
        self.release(self._cached.pop(key).size)
        self._meters.entries -= 1
