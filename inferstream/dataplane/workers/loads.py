"""How many calls every front end has in every worker, in memory that all front ends see.

Each chooses the least busy worker by it: what only one of them knew would send calls to a worker that others
keep busy.
"""

import mmap
import os

from .remote_call import RemoteCall

ROWS = 4096
"""Workers there may be at once."""

MOST = 2**16 - 1
"""Calls that are told apart from more."""


def created(count: int) -> int:
    """A file descriptor of such memory, empty, for so many front ends."""
    descriptor = os.memfd_create("inferstream", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, ROWS * count * 2)
    return descriptor


class WorkerLoad:
    """The calls in one worker, of which a front end notes its own."""

    def __init__(self, row: memoryview, index: int) -> None:
        self._row = row
        self._index = index

    def note(self, calls: int) -> None:
        """This front end has so many."""
        self._row[self._index] = min(calls, MOST)

    @property
    def total(self) -> int:
        """Those of all front ends."""
        return sum(self._row)


class WorkerLoads:
    """The memory, seen from the front end of this index, of so many."""

    def __init__(self, descriptor: int, index: int, count: int) -> None:
        memory = mmap.mmap(descriptor, ROWS * count * 2)
        self._cells = memoryview(memory).cast("H")
        self._index = index
        self._count = count

    def of(self, worker: int) -> WorkerLoad:
        """The load of the worker of this number."""
        start = worker % ROWS * self._count
        return WorkerLoad(self._cells[start : start + self._count], self._index)

    def begin(self, worker: int) -> WorkerLoad:
        """The load of a worker that has just started."""
        start = worker % ROWS * self._count
        self._cells[start : start + self._count] = memoryview(bytes(2 * self._count)).cast("H")
        return self.of(worker)

    def forget(self, index: int) -> None:
        """A front end has ended, and its calls with it."""
        for cell in range(index, ROWS * self._count, self._count):
            self._cells[cell] = 0


class CountedCalls(dict[int, RemoteCall]):
    """The calls of one front end in a worker, of which all front ends know how many they are."""

    def __init__(self, load: WorkerLoad) -> None:
        super().__init__()
        self.load = load

    def __setitem__(self, number: int, call: RemoteCall) -> None:
        super().__setitem__(number, call)
        self.load.note(len(self))

    def pop(self, number: int, default: RemoteCall | None = None) -> RemoteCall | None:  # type: ignore[override]
        found = super().pop(number, default)
        self.load.note(len(self))
        return found

    def clear(self) -> None:
        super().clear()
        self.load.note(0)
