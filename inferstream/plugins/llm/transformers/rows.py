"""Allocates cache rows to streams, and reuses the prefixes of ended streams."""

from dataclasses import dataclass
from itertools import count

from ..token_stream import TokenStream, find_longest_prefix
from .cache import SharedCache

FEW = 512
"""Unused memory of up to this many tokens is not reclaimed, because a resize would cost more."""


@dataclass(slots=True, eq=False)
class EndedRow:
    """The tokens in the row of an ended stream, when it ended, and its cache salt."""

    tokens: list[int]
    when: int
    salt: str


class Rows:
    """Allocates the rows of a `SharedCache`. Active streams occupy the first rows, without gaps.

    The rows of ended streams follow, and then unused rows. A new prompt reuses the longest prefix that it
    shares with one of these rows or an active one. `kept` limits the tokens of ended streams that are
    retained_count while no stream is active.
    """

    def __init__(self, cache: SharedCache, most: int, kept: int) -> None:
        self._cache = cache
        self._most = most
        self._kept = kept
        self.active: list[TokenStream] = []
        self._ended: list[EndedRow] = []
        """Ended streams, ordered by row. Their rows follow the active rows."""
        self._touched: dict[int, int] = {}
        """Maximum tokens written to each row since the last resize, which determines its memory."""
        self._clock = count()

    @property
    def retained_count(self) -> int:
        """Tokens of ended streams that can be reused."""
        return sum(len(ended.tokens) for ended in self._ended)

    def assign(self, stream: TokenStream) -> None:
        """Assign a row to a stream, with the longest cached prefix of its prompt."""
        row = len(self.active)
        self.reserve(stream.to_read, row + 1)
        shared, source = self._longest_prefix(stream)
        if source > row:
            self._swap(source, row)
        elif source < row:
            self._vacate(row)
            if shared:
                self._copy(source, row, shared)
        if source >= row:
            del self._ended[0]
        stream.row, stream.read = row, shared
        self.active.append(stream)

    def release(self, stream: TokenStream) -> None:
        """Release the row of an ended stream. The last active row moves into the gap."""
        row, last = stream.row, len(self.active) - 1
        self._touch(row, stream.read)
        if row != last:
            moved = self.active[last]
            self._cache.swap(row, stream.read, last, moved.read)
            self._touch(row, moved.read)
            self._touch(last, stream.read)
            self.active[row], moved.row = moved, row
        self.active.pop()
        stream.row = -1
        if self._kept:
            self._ended.insert(0, EndedRow(stream.tokens[: stream.read], next(self._clock), stream.salt))
        self._shrink()

    def reserve(self, tokens: int, rows: int = 0) -> None:
        """Ensure room for `tokens` tokens per row and for `rows` rows."""
        cache = self._cache
        if tokens >= cache.capacity or rows > cache.rows:
            rows = cache.rows if rows <= cache.rows else min(self._most, max(rows, 2 * cache.rows))
            length = cache.capacity - 1 if tokens < cache.capacity else max(tokens, cache.capacity * 3 // 2)
            self._resize(rows, length)

    def _longest_prefix(self, stream: TokenStream) -> tuple[int, int]:
        """Return the length and row of the longest cached prefix with the same salt."""
        held = [(each.salt, each.tokens[: each.read]) for each in self.active] if self._kept else []
        cached = [*held, *((each.salt, each.tokens) for each in self._ended)]
        return find_longest_prefix(stream, ((row, *each) for row, each in enumerate(cached)))

    def _vacate(self, row: int) -> None:
        """Move the first ended row to an unused row, or over the oldest ended row."""
        if not self._ended:
            return
        first, free = self._ended[0], row + len(self._ended)
        if free < self._cache.rows:
            self._copy(row, free, len(first.tokens))
            self._ended.append(first)
        else:
            oldest = min(range(len(self._ended)), key=lambda index: self._ended[index].when)
            if oldest:
                self._copy(row, row + oldest, len(first.tokens))
                self._ended[oldest] = first
        del self._ended[0]

    def _swap(self, source: int, row: int) -> None:
        """Swap two ended rows, of which `row` is the first."""
        index = source - row
        one, other = self._ended[0], self._ended[index]
        self._cache.swap(row, len(one.tokens), source, len(other.tokens))
        self._ended[0], self._ended[index] = other, one
        self._touch(row, len(other.tokens))
        self._touch(source, len(one.tokens))

    def _copy(self, source: int, target: int, tokens: int) -> None:
        self._cache.copy(source, target, tokens)
        self._touch(target, tokens)

    def _touch(self, row: int, tokens: int) -> None:
        self._touched[row] = max(self._touched.get(row, 0), tokens)

    def _shrink(self) -> None:
        """Reclaim memory: all but `kept` tokens if no stream is active, else excess capacity."""
        cache = self._cache
        if not self.active:
            touched = sum(self._touched.values()) if cache.sparse else cache.rows * cache.capacity
            if touched > self._kept + FEW:
                self._compact()
            return
        needed = max(max(each.prompt_length, len(each.tokens)) for each in self.active)
        if cache.capacity > 4 * max(needed, FEW):
            self._resize(cache.rows, 2 * needed)

    def _compact(self) -> None:
        """Keep the most recently ended rows, and shrink the cache to their size."""
        left = self._kept
        keep: set[int] = set()
        for index in sorted(range(len(self._ended)), key=lambda index: -self._ended[index].when):
            ended = self._ended[index]
            ended.tokens = ended.tokens[:left]
            if ended.tokens:
                keep.add(index)
                left -= len(ended.tokens)
        for target, index in enumerate(sorted(keep)):
            if target != index:
                self._cache.copy(index, target, len(self._ended[index].tokens))
        self._ended = [self._ended[index] for index in sorted(keep)]
        self._resize(len(self._ended), max((len(ended.tokens) for ended in self._ended), default=0))

    def _resize(self, rows: int, tokens: int) -> None:
        for ended in self._ended:
            ended.tokens = ended.tokens[:tokens]
        self._ended = self._ended[: max(0, rows - len(self.active))]
        kept = [each.read for each in self.active] + [len(ended.tokens) for ended in self._ended]
        self._cache.resize(rows, tokens, kept)
        self._touched = dict(enumerate(kept))
