"""Assigns the sequences of the cache to streams, and keeps the sequences of finished streams as prefixes."""

from typing import NamedTuple

from ..token_stream import TokenStream, find_longest_prefix
from .network import Network


class Prefix(NamedTuple):
    """The tokens of an ended stream, which are still in the cache, and its salt."""

    salt: str
    tokens: list[int]


class SequenceCache:
    """The sequences of a network. A new prompt shares the longest prefix of another with the same salt."""

    def __init__(self, network: Network, count: int) -> None:
        self._network = network
        self._free = [*range(count)]
        self._ended: dict[int, Prefix] = {}
        """Ended streams by sequence, least recently used first."""
        self.active: list[TokenStream] = []

    def assign(self, stream: TokenStream) -> None:
        """Assign a sequence to a stream. There must be one that is not active."""
        shared, source = self.find_prefix(stream)
        if source in self._ended:
            self._ended[source] = self._ended.pop(source)
        if not self._free:
            self.drop_oldest()
        stream.row, stream.read = self._free.pop(), shared
        if shared:
            self._network.copy(source, stream.row, shared)
        self.active.append(stream)

    def release(self, stream: TokenStream) -> None:
        """Release the sequence of an ended stream. Its tokens stay until their room is needed."""
        self.active.remove(stream)
        self._ended[stream.row] = Prefix(stream.salt, stream.tokens[: stream.read])
        stream.row = -1

    def drop_oldest(self) -> bool:
        """Drop the least recently used prefix. Returns False if there is none."""
        if not self._ended:
            return False
        row = next(iter(self._ended))
        del self._ended[row]
        self._free_row(row)
        return True

    def stop_newest(self, streams: set[TokenStream]) -> None:
        """Stop the newest of several streams, preferably one that is not in `streams`. It has to restart.

        Raises RuntimeError if there is only one.
        """
        if len(self.active) < 2:
            raise RuntimeError("the cache has no room for one stream")
        stopped = max(self.active, key=lambda each: (each not in streams, each.number))
        self.active.remove(stopped)
        self._free_row(stopped.row)
        stopped.restart()

    def clear(self) -> None:
        """Empty the cache. All streams have to restart."""
        self._network.remove(-1)
        self._free += [*self._ended, *(stream.row for stream in self.active)]
        for stream in self.active:
            stream.restart()
        self._ended.clear()
        self.active.clear()

    def find_prefix(self, stream: TokenStream) -> tuple[int, int]:
        """Return the length and sequence of the longest prefix in the cache."""
        if not self._network.has_prefixes:
            return 0, -1
        active = ((each.row, each.salt, each.tokens[: each.read]) for each in self.active)
        return find_longest_prefix(stream, [*active, *((row, *each) for row, each in self._ended.items())])

    def _free_row(self, row: int) -> None:
        self._network.remove(row)
        self._free.append(row)
