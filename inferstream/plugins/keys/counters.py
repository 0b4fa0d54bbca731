"""Usage counters of principals in memory that all processes of a server share.

Each process writes only its own cells (the calls in progress), so these are not locked. All processes write
the other words of a row under a kernel lock, which is released if its owner is killed. Each word is written
atomically, in an order such that the counters of a killed process are too high rather than too low.

Rows are located by keyed digests. The key is random for each start, so that clients who choose their names
cannot choose the row. If all rows are taken, a new name reuses an idle row, because a fresh row would admit
the same calls. The daily tokens of the previous owner are stored in `DayTotals`, so that its daily limit does
not reset.
"""

import fcntl
import hashlib
import mmap
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from .errors import LimitExceeded
from .words import DAY_WORDS, WORDS, DayTotals, is_idle

ROWS = 2**16
"""Number of rows, and so of principals with counters."""

WAYS = 64
"""Associativity: each name can be in this many rows, so that a search is short."""

CELLS = 2
"""Cells per row and process. Only that process writes them."""

IN_FLIGHT, STREAMS = range(CELLS)

MAIL = 2**20
"""Size, in words, of the mailbox that passes usage records to the process that saves them."""

FULL_NANOSECONDS = 1_000_000_000
"""How long a set of rows that was full is not searched again."""

_WORD = 8
"""Bytes per word."""

_KEY = 2
"""Size of the digest key in words."""

_PATIENCE = 20_000_000
"""Maximum wait for a row lock. Other processes hold it for microseconds unless they are suspended."""


class Row:
    """The counters of one name.

    `words` are shared and protected by the lock. `own` are this process's cells.
    """

    __slots__ = ("_cells", "_counters", "_digest", "_number", "own", "words")

    def __init__(self, counters: "Counters", number: int, digest: int) -> None:
        self._counters = counters
        self._number = number
        self._digest = digest
        self.words = counters.view_words(number)
        self._cells = counters.view_cells(number)
        self.own = self._cells[counters.index :: counters.count]

    def is_current(self) -> bool:
        """Whether the row still belongs to its name. An idle row may have been reassigned."""
        return self._counters.digests[self._number] == self._digest

    def lock(self) -> bool:
        """Lock the row's words. Returns False, without a lock, if the row was reassigned.

        Raises LimitExceeded if another process does not release the lock.
        """
        self._counters.lock(self._number)
        if self._counters.digests[self._number] == self._digest:
            return True
        self.unlock()
        return False

    def unlock(self) -> None:
        self._counters.unlock(self._number)

    def total(self, cell: int) -> int:
        """Return the sum of a cell over all processes."""
        start = cell * self._counters.count
        return sum(self._cells[start : start + self._counters.count])


def create_counters(count: int) -> int:
    """Create empty shared memory for `count` processes and return its file descriptor.

    Pages without rows use no memory.
    """
    descriptor = os.memfd_create("inferstream", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, sum(_sizes(count)) * _WORD)
    os.pwrite(descriptor, os.urandom(_KEY * _WORD), 0)
    return descriptor


def _sizes(count: int) -> list[int]:
    """Return the sizes, in words, of the digest key, digests, words, cells, mailbox and daily totals."""
    return [_KEY, ROWS, ROWS * WORDS, ROWS * CELLS * count, 1 + MAIL, DAY_WORDS]


class Counters:
    """The counters of a server with `count` processes, as seen by process `index`.

    Without `descriptor`, for a single process, the memory is private.
    """

    def __init__(self, descriptor: int | None = None, index: int = 0, count: int = 1) -> None:
        self.count = count
        self.index = index
        # Duplicated, because the last process saves after the others have exited.
        self._descriptor = None if descriptor is None else os.dup(descriptor)
        sizes = _sizes(count)
        memory = mmap.mmap(-1 if descriptor is None else descriptor, sum(sizes) * _WORD)
        if descriptor is None:
            memory[: _KEY * _WORD] = os.urandom(_KEY * _WORD)
        view = memoryview(memory).cast("q")
        starts = [sum(sizes[:part]) for part in range(len(sizes))]
        parts = [view[start : start + size] for start, size in zip(starts, sizes, strict=True)]
        self._key = parts[0].tobytes()
        self.digests, self._words, self._cells = parts[1:4]
        self._posted, self._mail = parts[4][:1], parts[4][1:].cast("B")
        self._days = DayTotals(parts[5])
        self._ways = min(WAYS, ROWS)
        self._full = [0] * (ROWS // self._ways)
        """For each set of rows, the time until which it is assumed to be full."""

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def view_words(self, number: int) -> memoryview:
        return self._words[number * WORDS : (number + 1) * WORDS]

    def view_cells(self, number: int) -> memoryview:
        size = CELLS * self.count
        return self._cells[number * size : (number + 1) * size]

    def row(self, name: str, now: int, wall: float) -> Row:
        """Return the row of a name. `now` is in nanoseconds on the limits' clock, `wall` in seconds since 1970.

        Raises LimitExceeded if all rows that the name can have are in use.
        """
        digest = _digest(name, self._key)
        rows = digest % len(self._full)
        if (number := self._find_row(rows, digest)) is None:
            if self._full[rows] > now:
                raise _build_overflow_error()
            number = self._reserve(rows, digest, now, wall)
        return Row(self, number, digest)

    def post(self, records: Sequence[bytes]) -> bool:
        """Put records, which must not contain line breaks, into the mailbox. Returns False if it is full."""
        lines = b"".join(record + b"\n" for record in records)
        with self._lock_row(ROWS + 1):
            start = self._posted[0]
            if start + len(lines) > len(self._mail):
                return False
            self._mail[start : start + len(lines)] = lines
            self._posted[0] = start + len(lines)  # Must be last, so that an interrupted write is overwritten.
            return True

    def take(self) -> list[bytes]:
        """Remove the records of all processes from the mailbox and return them."""
        with self._lock_row(ROWS + 1):
            lines = self._mail[: self._posted[0]].tobytes()
            self._posted[0] = 0
        return lines.split(b"\n")[:-1]

    def forget(self, index: int) -> None:
        """Release the calls in progress of a killed process, before its index is reused."""
        for number, digest in enumerate(self.digests.tolist()):
            if digest:
                cells = self.view_cells(number)
                for cell in (IN_FLIGHT, STREAMS):
                    cells[cell * self.count + index] = 0

    def _find_row(self, rows: int, digest: int) -> int | None:
        start = rows * self._ways
        digests = self.digests[start : start + self._ways].tolist()
        return start + digests.index(digest) if digest in digests else None

    def _reserve(self, rows: int, digest: int, now: int, wall: float) -> int:
        with self._lock_row(ROWS):
            number = self._find_row(rows, digest)  # Another process may have created it in the meantime.
            if number is not None:
                return number
            if (number := self._find_row(rows, 0)) is None:
                number = self._reclaim_row(rows, digest // len(self._full), now, wall)
            words, cells = self.view_words(number), self.view_cells(number)
            for numbers in (words, cells):
                numbers[:] = memoryview(bytes(numbers.nbytes)).cast("q")
            self._days.restore(digest, words, wall)
            self.digests[number] = digest
            return number

    def _reclaim_row(self, rows: int, first: int, now: int, wall: float) -> int:
        """Reclaim the row of an idle name.

        Raises LimitExceeded if none is idle. New names are then rejected for a second.
        """
        for way in range(self._ways):
            number = rows * self._ways + (first + way) % self._ways
            words = self.view_words(number)
            if not any(self.view_cells(number)) and is_idle(words, now):
                with suppress(LimitExceeded), self._lock_row(number):
                    idle = not any(self.view_cells(number)) and is_idle(words, now)
                    if idle and self._days.keep(self.digests[number], words, wall):
                        self.digests[number] = 0
                        return number
        self._full[rows] = now + FULL_NANOSECONDS
        raise _build_overflow_error()

    def lock(self, number: int) -> None:
        """Lock a row for this process. Raises LimitExceeded."""
        if self._descriptor is not None:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except OSError:
                _wait_for_lock(self._descriptor, number)

    def unlock(self, number: int) -> None:
        if self._descriptor is not None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, number)

    @contextmanager
    def _lock_row(self, number: int) -> Iterator[None]:
        """Hold the lock of a row. Raises LimitExceeded."""
        self.lock(number)
        try:
            yield
        finally:
            self.unlock(number)


def _digest(name: str, key: bytes) -> int:
    """Return a 63-bit keyed digest of a name. Never 0, which marks a free row."""
    text = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest()) >> 1 or 1


def _build_overflow_error() -> LimitExceeded:
    return LimitExceeded("of principals at once", ROWS, FULL_NANOSECONDS)


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
