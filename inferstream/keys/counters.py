"""Counters of principals: lists of numbers in one process, rows of shared memory in several.

Only one process writes its own cells (calls in progress, what keys have used), so these need no lock. The other words
of a row change under a lock of the kernel, which ends with the process that has it. Each word is stored at once and in
an order in which a killed process has admitted less than the words say.

Rows are known by digests. The names themselves are written once, one after the other, for whoever saves what keys have
used: it may not have seen a token that others have.
"""

import fcntl
import hashlib
import mmap
import os
import time
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Protocol

from .errors import LimitExceeded

ROWS = 2**16
"""Principals and keys with counters, each of which has a row."""

WORDS = 128
"""Numbers of a row that all processes change."""

CELLS = 6
"""Numbers of a row that each process has for itself."""

IN_FLIGHT, STREAMS, REQUESTS, REFUSED, TOKENS, BYTES = range(CELLS)

_WORD = 8
"""Bytes."""

_NAME = 132
"""Words that a name takes at most, with its digest and its length: 1,040 bytes of UTF-8, more than any name has."""

_MOST_NAME = (_NAME - 2) * _WORD

_PATIENCE = 20_000_000
"""Nanoseconds to wait for another process, which has a row for some microseconds unless it was stopped there."""

Words = MutableSequence[int] | memoryview


class Row(Protocol):
    """The counters of one name."""

    @property
    def words(self) -> Words:
        """The numbers that all processes share, between `lock` and `unlock`."""

    @property
    def own(self) -> Words:
        """The cells of this process."""

    def lock(self) -> None:
        """Keep other processes from the words. Raises LimitExceeded if one of them does not let go."""

    def unlock(self) -> None: ...

    def total(self, cell: int) -> int:
        """The sum of a cell over the processes."""


class Counters(Protocol):
    """The rows of one server."""

    count: int
    """Processes that share them."""

    def row(self, name: str) -> Row:
        """The row of a name. Raises LimitExceeded if there are too many names."""

    def find(self, name: str) -> Row | None:
        """The row of a name; None if it has none."""

    def names(self) -> Sequence[str]:
        """The names that have rows, in all processes. For one thread at a time, which may be any."""


class _LocalRow:
    __slots__ = ("own", "words")

    def __init__(self) -> None:
        self.words = [0] * WORDS
        self.own = [0] * CELLS

    def lock(self) -> None:
        """No other process has this row."""

    def unlock(self) -> None:
        """No other process has this row."""

    def total(self, cell: int) -> int:
        return self.own[cell]


class LocalCounters:
    """The counters of a server that is one process."""

    count = 1

    def __init__(self) -> None:
        self._rows: dict[str, _LocalRow] = {}

    def row(self, name: str) -> Row:
        row = self._rows.get(name)
        if row is None:
            if len(self._rows) == ROWS:
                raise _too_many()
            row = self._rows[name] = _LocalRow()
        return row

    def find(self, name: str) -> Row | None:
        return self._rows.get(name)

    def names(self) -> Sequence[str]:
        return [*self._rows]


class _SharedRow:
    __slots__ = ("_cells", "_count", "_descriptor", "_number", "own", "words")

    def __init__(
        self, descriptor: int, number: int, words: memoryview, cells: memoryview, index: int, count: int
    ) -> None:
        self._descriptor = descriptor
        self._number = number
        self._cells = cells
        self._count = count
        self.words = words
        self.own = cells[index::count]

    def lock(self) -> None:
        _lock(self._descriptor, self._number)

    def unlock(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, self._number)

    def total(self, cell: int) -> int:
        start = cell * self._count
        return sum(self._cells[start : start + self._count])


def create_counters(count: int) -> int:
    """A file descriptor of empty memory for the counters of `count` processes. Pages without rows take no memory."""
    descriptor = os.memfd_create("inferstream", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, _words_of(count) * _WORD)
    return descriptor


def _words_of(count: int) -> int:
    return ROWS * (1 + WORDS + CELLS * count) + 1 + ROWS * _NAME


class SharedCounters:
    """The counters of a server of `count` processes, for the process `index`. It keeps `descriptor` open."""

    def __init__(self, descriptor: int, index: int, count: int) -> None:
        self.count = count
        self._descriptor = descriptor
        self._index = index
        view = memoryview(mmap.mmap(descriptor, _words_of(count) * _WORD)).cast("q")
        self._digests = view[:ROWS]
        self._words = view[ROWS : ROWS * (1 + WORDS)]
        written = ROWS * (1 + WORDS + CELLS * count)
        self._cells = view[ROWS * (1 + WORDS) : written]
        self._written = view[written : written + 1]
        self._names = view[written + 1 :]
        self._read = 0
        self._known_names: list[str] = []

    def row(self, name: str) -> Row:
        """The row of a name. A name keeps its row for as long as the server runs."""
        digest = _digest(name)
        number = self._known(digest)
        return self._row(self._reserved(digest, name) if number is None else number)

    def find(self, name: str) -> Row | None:
        number = self._known(_digest(name))
        return None if number is None else self._row(number)

    def names(self) -> Sequence[str]:
        while self._read < self._written[0]:
            digest, size = self._names[self._read : self._read + 2]
            start, end = self._read + 2, self._read + 2 + -(-size // _WORD)
            name = self._names[start:end].tobytes()[:size].decode("utf-8", "replace")
            if _digest(name) != digest:
                break  # another processor has not shown all of it yet
            self._known_names.append(name)
            self._read = end
        return self._known_names

    def forget(self, index: int) -> None:
        """End the calls of a process that was killed, before another one gets its index."""
        size = CELLS * self.count
        for number, digest in enumerate(self._digests.tolist()):
            if digest:
                for cell in (IN_FLIGHT, STREAMS):
                    self._cells[number * size + cell * self.count + index] = 0

    def _row(self, number: int) -> Row:
        words = self._words[number * WORDS : (number + 1) * WORDS]
        size = CELLS * self.count
        cells = self._cells[number * size : (number + 1) * size]
        return _SharedRow(self._descriptor, number, words, cells, self._index, self.count)

    def _known(self, digest: int) -> int | None:
        for number in _probed(digest):
            if self._digests[number] == digest:
                return number
            if not self._digests[number]:
                break
        return None

    def _reserved(self, digest: int, name: str) -> int:
        _lock(self._descriptor, ROWS)
        try:
            for number in _probed(digest):
                known = self._digests[number]
                if not known:
                    self._write(digest, name)
                    self._digests[number] = digest
                if known in (0, digest):
                    return number
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, ROWS)
        raise _too_many()

    def _write(self, digest: int, name: str) -> None:
        """Write a name behind the others. That of a process which is killed before it counts them is written over."""
        text = name.encode("utf-8", "replace")
        start = self._written[0]
        end = start + 2 + -(-len(text) // _WORD)
        if len(text) <= _MOST_NAME and end <= len(self._names):
            self._names[start], self._names[start + 1] = digest, len(text)
            self._names[start + 2 : end].cast("B")[: len(text)] = text
            self._written[0] = end


def _digest(name: str) -> int:
    """63 bits of a name, never 0, which marks a row without one."""
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1 or 1


def _too_many() -> LimitExceeded:
    return LimitExceeded("of principals and keys with counters", ROWS, None)


def _probed(digest: int) -> Iterator[int]:
    return ((digest + i) % ROWS for i in range(ROWS))


def _lock(descriptor: int, number: int) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except OSError:
        _wait_for_lock(descriptor, number)


def _wait_for_lock(descriptor: int, number: int) -> None:
    end = time.monotonic_ns() + _PATIENCE
    while time.monotonic_ns() < end:
        os.sched_yield()
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            return
        except OSError:
            continue
    raise LimitExceeded("of processes that count at once", 1, _PATIENCE)
