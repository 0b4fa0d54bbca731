"""Counts of the calls of each front end in each worker, in shared memory.

Front ends use them to choose the least busy worker, because their own counts do not include the calls of
other front ends.
"""

import mmap
import os

ROWS = 4096
"""Maximum number of concurrent workers."""

MAX_COUNT = 2**16 - 1
"""Larger numbers of calls are stored as this maximum."""


def create_loads(count: int) -> int:
    """Create shared memory for the counts of `count` front ends. Returns its file descriptor."""
    descriptor = os.memfd_create("inferstream", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, ROWS * count * 2)
    return descriptor


class WorkerLoad:
    """The number of calls in one worker. Each front end writes only its own count."""

    def __init__(self, row: memoryview, index: int) -> None:
        self._row = row
        self._index = index

    def note(self, calls: int) -> None:
        """Store the number of calls of this front end."""
        self._row[self._index] = min(calls, MAX_COUNT)

    @property
    def total(self) -> int:
        return sum(self._row)


class WorkerLoads:
    """The counts of all workers in shared memory, for front end `index` of `count`."""

    def __init__(self, descriptor: int, index: int, count: int) -> None:
        memory = mmap.mmap(descriptor, ROWS * count * 2)
        self._cells = memoryview(memory).cast("H")
        self._index = index
        self._count = count

    def of(self, worker: int) -> WorkerLoad:
        start = worker % ROWS * self._count
        return WorkerLoad(self._cells[start : start + self._count], self._index)

    def begin(self, worker: int) -> WorkerLoad:
        """Zero the counts of a newly started worker and return its `WorkerLoad`."""
        start = worker % ROWS * self._count
        self._cells[start : start + self._count] = memoryview(bytes(2 * self._count)).cast("H")
        return self.of(worker)

    def forget(self, index: int) -> None:
        for cell in range(index, ROWS * self._count, self._count):
            self._cells[cell] = 0
