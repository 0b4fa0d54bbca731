"""The contents of the response cache: responses of all models, bounded in room and time."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from ...telemetry.stages import StoreMeters
from .snapshot import Snapshot

CacheKey = tuple[int, bytes]
"""The owner and the hash of a request."""

LARGEST_SHARE = 4
"""One entry may take this fraction of the room, so that it cannot evict all others."""


class CachedResponses(NamedTuple):
    """The responses to a request; `single` unless they are a stream."""

    responses: list[Snapshot]
    single: bool
    size: int
    until: float


class Store:
    """At most `entries` entries of `room` bytes in all; evicts the least recently used.

    Recordings in progress take room too. Entries expire after `seconds` on `clock` unless a model sets another time.
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
        return self._room // LARGEST_SHARE

    def get(self, key: CacheKey) -> CachedResponses | None:
        entry = self._cached.get(key)
        if entry is None:
            return None
        if entry.until <= self._clock():
            self._drop(key)
            return None
        self._cached.move_to_end(key)
        return entry

    def reserve(self, size: int) -> bool:
        """Reserve room for a recording; False if eviction cannot make enough."""
        meters = self._meters
        while meters.bytes + size > self._room and self._cached:
            self._evict()
        if meters.bytes + size > self._room:
            return False
        meters.bytes += size
        return True

    def release(self, size: int) -> None:
        self._meters.bytes -= size

    def put(self, key: CacheKey, responses: list[Snapshot], single: bool, size: int, seconds: float) -> None:
        if key in self._cached:
            self._drop(key)
        while len(self._cached) >= self._entries:
            self._evict()
        self._cached[key] = CachedResponses(responses, single, size, self._clock() + seconds)
        self._meters.entries += 1

    def forget(self, owner: int) -> None:
        for key in [key for key in self._cached if key[0] == owner]:
            self._drop(key)

    def _evict(self) -> None:
        self._drop(next(iter(self._cached)))
        self._meters.evicted += 1

    def _drop(self, key: CacheKey) -> None:
        self.release(self._cached.pop(key).size)
        self._meters.entries -= 1
