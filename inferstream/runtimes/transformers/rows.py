"""The rows of the shared cache: which stream has which, and which ended streams can be built upon."""

from dataclasses import dataclass
from itertools import count

from .cache import SharedCache
from .stream import TokenStream

FEW = 512
"""Tokens that are not worth an own resize to give their memory back."""


@dataclass(slots=True, eq=False)
class EndedRow:
    """The tokens that the row of an ended stream holds, when it ended, and whose it was."""

    tokens: list[int]
    when: int
    salt: str


class Rows:
    """Hands out the rows of a `SharedCache`: active streams have the first rows, without a hole.

    The rows behind them are those of ended streams, then unused ones. A prompt that begins as one of these
    rows, or as an active one, takes over what is equal. `kept` limits the tokens of ended streams that stay
    while no stream is active.
    """

    def __init__(self, cache: SharedCache, most: int, kept: int) -> None:
        self._cache = cache
        self._most = most
        self._kept = kept
        self.active: list[TokenStream] = []
        self._ended: list[EndedRow] = []
        """In the order of their rows, which begin where those of `active` end."""
        self._touched: dict[int, int] = {}
        """Tokens ever written in each row since the last resize, and so the memory that it takes."""
        self._clock = count()

    @property
    def retained(self) -> int:
        """Tokens of ended streams that can be built upon."""
        return sum(len(ended.tokens) for ended in self._ended)

    def take(self, stream: TokenStream) -> None:
        """Give a stream a row that holds as much of its prompt as any other row does."""
        row = len(self.active)
        self.reserve(stream.prompt_length, row + 1)
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

    def leave(self, stream: TokenStream) -> None:
        """Take the row of a stream that has ended; the last active row moves there."""
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
        """Make room for `tokens` tokens in each row, and for `rows` rows."""
        cache = self._cache
        if tokens >= cache.capacity or rows > cache.rows:
            rows = cache.rows if rows <= cache.rows else min(self._most, max(rows, 2 * cache.rows))
            length = cache.capacity - 1 if tokens < cache.capacity else max(tokens, cache.capacity * 3 // 2)
            self._resize(rows, length)

    def _longest_prefix(self, stream: TokenStream) -> tuple[int, int]:
        """How many tokens of the prompt a row of equal salt holds, and which; the last token is always read anew."""
        prompt = stream.tokens
        best, source = 0, -1
        held = [(each.salt, each.tokens[: each.read]) for each in self.active] if self._kept else []
        for row, (salt, tokens) in enumerate([*held, *((each.salt, each.tokens) for each in self._ended)]):
            shared = _shared(prompt, tokens, stream.prompt_length - 1) if salt == stream.salt else 0
            if shared > best:
                best, source = shared, row
        return best, source

    def _vacate(self, row: int) -> None:
        """Move what the first row behind the active ones holds to where it is needed least."""
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
        """Exchange the rows of two ended streams, of which `row` is the first."""
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
        """Give memory back: all but `kept` tokens without a stream, and most of a capacity nobody needs now."""
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
        """Keep the rows of the last streams that ended, in memory of their size."""
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


def _shared(one: list[int], other: list[int], most: int) -> int:
    most = min(most, len(other))
    if one[:most] == other[:most]:
        return most
    for index in range(most):
        if one[index] != other[index]:
            return index
    return most
