"""Counters of principals: rows of memory that all processes of a server share.

Only one process writes its own cells (calls in progress), so these need no lock. The other words of a row change under
a lock of the kernel, which ends with the process that has it. Each word is stored at once and in an order in which a
killed process has admitted less than the words say.

Rows are found by digests with a key that changes with each start, so that clients who choose names cannot choose rows.
If all rows are taken, a new name gets the row of an idle name: a new row would admit the same calls. Its tokens of the
day are kept in `DayTotals`, so that no principal gets them twice.
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
"""Principals with counters, each of which has a row."""

WAYS = 64
"""Rows among which that of a name is, so that each search is short."""

CELLS = 2
"""Numbers of a row that each process has for itself."""

IN_FLIGHT, STREAMS = range(CELLS)

MAIL = 2**20
"""Words of the records for the process that saves them."""

FULL_NANOSECONDS = 1_000_000_000
"""How long rows that were all in use are not looked at again."""

_WORD = 8
"""Bytes."""

_KEY = 2
"""Words of the key of digests."""

_PATIENCE = 20_000_000
"""Nanoseconds to wait for another process, which has a row for some microseconds unless it was stopped there."""


class Row:
    """The counters of one name. `words` are shared, and change between `lock` and `unlock`; `own` are cells."""

    __slots__ = ("_cells", "_counters", "_digest", "_number", "own", "words")

    def __init__(self, counters: "Counters", number: int, digest: int) -> None:
        self._counters = counters
        self._number = number
        self._digest = digest
        self.words = counters.words_of(number)
        self._cells = counters.cells_of(number)
        self.own = self._cells[counters.index :: counters.count]

    def is_current(self) -> bool:
        """Whether it is the row of its name. It may be another's if it was idle."""
        return self._counters.digests[self._number] == self._digest

    def lock(self) -> bool:
        """Keep other processes from the words. False for a row that is not current, which is not locked.

        Raises LimitExceeded if another process does not let go.
        """
        self._counters.lock(self._number)
        if self._counters.digests[self._number] == self._digest:
            return True
        self.unlock()
        return False

    def unlock(self) -> None:
        self._counters.unlock(self._number)

    def total(self, cell: int) -> int:
        """The sum of a cell over the processes."""
        start = cell * self._counters.count
        return sum(self._cells[start : start + self._counters.count])


def create_counters(count: int) -> int:
    """A file descriptor of empty memory for the counters of `count` processes. Pages without rows take no memory."""
    descriptor = os.memfd_create("inferstream", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, sum(_sizes(count)) * _WORD)
    os.pwrite(descriptor, os.urandom(_KEY * _WORD), 0)
    return descriptor


def _sizes(count: int) -> list[int]:
    """Words of the key, the digests, the words, the cells, the records and the days."""
    return [_KEY, ROWS, ROWS * WORDS, ROWS * CELLS * count, 1 + MAIL, DAY_WORDS]


class Counters:
    """The counters of a server of `count` processes, for the process `index`. A single one needs no `descriptor`."""

    def __init__(self, descriptor: int | None = None, index: int = 0, count: int = 1) -> None:
        self.count = count
        self.index = index
        # The last process saves after the others have ended.
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
        """Until when the rows of a set were all in use."""

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def words_of(self, number: int) -> memoryview:
        return self._words[number * WORDS : (number + 1) * WORDS]

    def cells_of(self, number: int) -> memoryview:
        size = CELLS * self.count
        return self._cells[number * size : (number + 1) * size]

    def row(self, name: str, now: int, wall: float) -> Row:
        """The row of a name. `now` is in nanoseconds on the clock of the limits, `wall` in seconds since 1970.

        Raises LimitExceeded if all that it may have are in use.
        """
        digest = _digest(name, self._key)
        rows = digest % len(self._full)
        if (number := self._number(rows, digest)) is None:
            if self._full[rows] > now:
                raise _too_many()
            number = self._reserve(rows, digest, now, wall)
        return Row(self, number, digest)

    def post(self, records: Sequence[bytes]) -> bool:
        """Hand over records, without line breaks, to the process that saves them; False if there is no room."""
        lines = b"".join(record + b"\n" for record in records)
        with self._locked(ROWS + 1):
            start = self._posted[0]
            if start + len(lines) > len(self._mail):
                return False
            self._mail[start : start + len(lines)] = lines
            self._posted[0] = start + len(lines)  # last: what a killed process wrote is written over
            return True

    def take(self) -> list[bytes]:
        """The records of all processes since the last time."""
        with self._locked(ROWS + 1):
            lines = self._mail[: self._posted[0]].tobytes()
            self._posted[0] = 0
        return lines.split(b"\n")[:-1]

    def forget(self, index: int) -> None:
        """End the calls of a process that was killed, before another one gets its index."""
        for number, digest in enumerate(self.digests.tolist()):
            if digest:
                cells = self.cells_of(number)
                for cell in (IN_FLIGHT, STREAMS):
                    cells[cell * self.count + index] = 0

    def _number(self, rows: int, digest: int) -> int | None:
        start = rows * self._ways
        digests = self.digests[start : start + self._ways].tolist()
        return start + digests.index(digest) if digest in digests else None

    def _reserve(self, rows: int, digest: int, now: int, wall: float) -> int:
        with self._locked(ROWS):
            number = self._number(rows, digest)  # another process may have been first
            if number is not None:
                return number
            if (number := self._number(rows, 0)) is None:
                number = self._forget(rows, digest // len(self._full), now, wall)
            words, cells = self.words_of(number), self.cells_of(number)
            for numbers in (words, cells):
                numbers[:] = memoryview(bytes(numbers.nbytes)).cast("q")
            self._days.restore(digest, words, wall)
            self.digests[number] = digest
            return number

    def _forget(self, rows: int, first: int, now: int, wall: float) -> int:
        """Take the row of an idle name. Raises LimitExceeded without one, which counts for a while."""
        for way in range(self._ways):
            number = rows * self._ways + (first + way) % self._ways
            words = self.words_of(number)
            if not any(self.cells_of(number)) and is_idle(words, now):
                with suppress(LimitExceeded), self._locked(number):
                    idle = not any(self.cells_of(number)) and is_idle(words, now)
                    if idle and self._days.keep(self.digests[number], words, wall):
                        self.digests[number] = 0
                        return number
        self._full[rows] = now + FULL_NANOSECONDS
        raise _too_many()

    def lock(self, number: int) -> None:
        """Keep other processes from a row. Raises LimitExceeded."""
        if self._descriptor is not None:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except OSError:
                _wait_for_lock(self._descriptor, number)

    def unlock(self, number: int) -> None:
        if self._descriptor is not None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, number)

    @contextmanager
    def _locked(self, number: int) -> Iterator[None]:
        """Raises LimitExceeded."""
        self.lock(number)
        try:
            yield
        finally:
            self.unlock(number)


def _digest(name: str, key: bytes) -> int:
    """63 bits of a name, never 0, which marks a row without one."""
    text = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest()) >> 1 or 1


def _too_many() -> LimitExceeded:
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
