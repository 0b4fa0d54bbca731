"""The number of calls of each front end in each worker, in shared memory.

A front end chooses the least busy worker by these numbers. With only its own it could choose one that others keep busy.
"""

import mmap
import os

ROWS = 4096
"""Concurrent workers."""

MOST = 2**16 - 1
"""Larger numbers of calls count as this."""


def create_loads(count: int) -> int:
    """A file descriptor of empty memory for the loads of `count` front ends."""
    descriptor = os.memfd_create("inferstream", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, ROWS * count * 2)
    return descriptor


class WorkerLoad:
    """The calls in one worker. Each front end writes its own number."""

    def __init__(self, row: memoryview, index: int) -> None:
        self._row = row
        self._index = index

    def note(self, calls: int) -> None:
        """Write the number of calls of this front end."""
        self._row[self._index] = min(calls, MOST)

    @property
    def total(self) -> int:
        return sum(self._row)


class WorkerLoads:
    """The shared memory with the loads, for the front end `index` of `count`."""

    def __init__(self, descriptor: int, index: int, count: int) -> None:
        memory = mmap.mmap(descriptor, ROWS * count * 2)
        self._cells = memoryview(memory).cast("H")
        self._index = index
        self._count = count

    def of(self, worker: int) -> WorkerLoad:
        start = worker % ROWS * self._count
        return WorkerLoad(self._cells[start : start + self._count], self._index)

    def begin(self, worker: int) -> WorkerLoad:
        """The load of a worker that has just started, set to zero."""
        start = worker % ROWS * self._count
        self._cells[start : start + self._count] = memoryview(bytes(2 * self._count)).cast("H")
        return self.of(worker)

    def forget(self, index: int) -> None:
        for cell in range(index, ROWS * self._count, self._count):
            self._cells[cell] = 0
