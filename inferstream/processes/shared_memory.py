"""Shared memory that one process writes tensors into and another reads them from, without a copy."""

import asyncio
import mmap
import os
import tempfile
import weakref
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

ALIGNMENT = 64
"""Bytes; what the widest vector instructions like."""

SIZE = 2**28
"""Bytes of address space for each direction of a worker; memory is taken only where tensors have been."""

FLAGS = 2**16
"""Bytes in front that are no tensors: one for each call in progress, which the worker sets when it starts it."""

RETAINED = 2**24
"""Bytes an arena in which nothing lies any more may keep in memory."""


@contextmanager
def created() -> Iterator[int]:
    """A file descriptor of anonymous memory, which stays for as long as a process has it open or mapped."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("inferstream", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, SIZE)
        yield descriptor
    finally:
        os.close(descriptor)


class Outgoing:
    """The writer's side: hands out places, and takes them back when the reader says so."""

    def __init__(self, descriptor: int) -> None:
        self._memory: mmap.mmap | None = mmap.mmap(descriptor, SIZE)
        self._bytes: Bytes = np.frombuffer(self._memory, np.uint8)
        self._free = [(FLAGS, SIZE - FLAGS)]
        self._taken: dict[int, int] = {}
        self._high = 0
        self.flags = memoryview(self._memory)[:FLAGS]
        self.written = 0
        """Bytes put so far."""

    def put(self, data: memoryview | bytes) -> int | None:
        """Copy `data` in and return its place; None when there is no room, and it must travel otherwise."""
        size = -(-len(data) // ALIGNMENT) * ALIGNMENT
        for i, (place, room) in enumerate(self._free):
            if room >= size:
                if room == size:
                    del self._free[i]
                else:
                    self._free[i] = (place + size, room - size)
                self._taken[place] = size
                self._high = max(self._high, place + size)
                self.written += size
                self._bytes[place : place + len(data)] = np.frombuffer(data, np.uint8)
                return place
        return None

    def free(self, places: list[int]) -> None:
        """Take places back."""
        for place in places:
            insort(self._free, (place, self._taken.pop(place)))
        merged = self._free[:1]
        for place, room in self._free[1:]:
            before, length = merged[-1]
            if before + length == place:
                merged[-1] = (before, length + room)
            else:
                merged.append((place, room))
        self._free = merged
        if not self._taken and self._high > RETAINED:
            self._give_back()

    def close(self) -> None:
        """Let go of the memory; nobody reads it any more."""
        self.flags.release()
        self._bytes = _NOTHING
        self._memory = None

    def _give_back(self) -> None:
        """Return memory to the system; without this an arena would stay as large as its busiest moment."""
        if self._memory is not None and hasattr(mmap, "MADV_REMOVE"):
            end = -(-self._high // mmap.PAGESIZE) * mmap.PAGESIZE
            self._memory.madvise(mmap.MADV_REMOVE, RETAINED, end - RETAINED)
            self._high = RETAINED


class Incoming:
    """The reader's side: views of tensors, each given back when the last look at it is gone.

    `freed` is called, from whatever thread dropped the last view, when there is something in `take_freed`.
    """

    def __init__(self, descriptor: int, freed: Callable[[], None]) -> None:
        self._memory: mmap.mmap | None = mmap.mmap(descriptor, SIZE)
        self.flags = memoryview(self._memory)[:FLAGS]
        self._freed = freed
        # A deque and no lock: the garbage collector may drop a view inside any line here, and would wait for itself.
        self._places: deque[int] = deque()

    def view(self, place: int, length: int) -> memoryview:
        """The bytes of one tensor; nobody else looks at them, so its reader may change them.

        The array below is what every later view of it holds on to (NumPy and memoryview both keep the
        exporter alive), so its end is the end of all of them.
        """
        assert self._memory is not None
        array = np.frombuffer(self._memory, np.uint8, length, place)
        weakref.finalize(array, self._released, place).atexit = False
        return memoryview(array)  # type: ignore[arg-type]  # NumPy's stubs for 3.11 know no Buffer

    def _released(self, place: int) -> None:
        self._places.append(place)
        self._freed()

    def take_freed(self) -> list[int]:
        """Places that nobody looks at any more, for the writer to use again."""
        return [self._places.popleft() for _ in range(len(self._places))]

    def close(self) -> None:
        """Let go of the memory, which stays for as long as somebody still looks at a tensor."""
        self.flags.release()
        self._memory = None


class Memory:
    """Both directions of the memory between two processes. `send_freed` sends places back to their writer."""

    def __init__(self, incoming: int, outgoing: int, send_freed: Callable[[list[int]], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._send_freed = send_freed
        self._scheduled = False
        self.incoming = Incoming(incoming, self._freed)
        try:
            self.outgoing = Outgoing(outgoing)
        except OSError:
            self.incoming.close()
            raise

    def _freed(self) -> None:
        # Any thread calls this: the one that drops the last view of a tensor.
        if not self._scheduled:
            self._scheduled = True
            with suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(self._give_back)

    def _give_back(self) -> None:
        self._scheduled = False
        self._send_freed(self.incoming.take_freed())

    def close(self) -> None:
        self.incoming.close()
        self.outgoing.close()


_NOTHING: Bytes = np.empty(0, np.uint8)
