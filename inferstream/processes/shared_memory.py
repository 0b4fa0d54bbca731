"""Shared memory for tensors, which one process writes and another reads without a copy."""

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

from ..types import Unread

Bytes = npt.NDArray[np.uint8]

ALIGNMENT = 64
"""The alignment of tensors, in bytes, which suits the widest vector instructions."""

SIZE = 2**28
"""Bytes of address space for each direction of a worker.

Memory is used only where tensors have been written.
"""

FLAGS = 2**16
"""Bytes reserved for flags at the start, one per call. The worker sets a flag when it starts the call."""

RETAINED = 2**24
"""Bytes that an empty arena may keep in memory."""


@contextmanager
def create_memory() -> Iterator[int]:
    """Create anonymous memory and yield its file descriptor.

    The memory is freed when no process has it open or mapped.
    """
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
    """The writer's side: allocates blocks, and frees them when the reader is done."""

    def __init__(self, descriptor: int) -> None:
        self._memory: mmap.mmap | None = mmap.mmap(descriptor, SIZE)
        self._bytes: Bytes = np.frombuffer(self._memory, np.uint8)
        self._free = [(FLAGS, SIZE - FLAGS)]
        self._taken: dict[int, int] = {}
        self._high = 0
        self.flags = memoryview(self._memory)[:FLAGS]
        self.written = 0

    def put(self, data: memoryview | bytes | Unread) -> int | None:
        """Copy `data` to shared memory and return its offset.

        Returns None if it does not fit, and the caller must send it another way. Raises the errors of
        `read_into`.
        """
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
                into = self._bytes[place : place + len(data)]
                if isinstance(data, (bytes, memoryview)):
                    into[:] = np.frombuffer(data, np.uint8)
                else:
                    self._read(data, place, into.data)
                return place
        return None

    def _read(self, data: Unread, place: int, into: memoryview) -> None:
        try:
            data.read_into(into)
        except BaseException:
            self.free([place])
            raise

    def free(self, places: list[int]) -> None:
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
        self.flags.release()
        self._bytes = _NOTHING
        self._memory = None

    def _give_back(self) -> None:
        """Return memory to the system. Otherwise an arena would keep its largest size."""
        if self._memory is not None and hasattr(mmap, "MADV_REMOVE"):
            end = -(-self._high // mmap.PAGESIZE) * mmap.PAGESIZE
            self._memory.madvise(mmap.MADV_REMOVE, RETAINED, end - RETAINED)
            self._high = RETAINED


class Incoming:
    """The reader's side. `freed` is called in the thread that dropped the last view of a block."""

    def __init__(self, descriptor: int, freed: Callable[[], None]) -> None:
        self._memory: mmap.mmap | None = mmap.mmap(descriptor, SIZE)
        self.flags = memoryview(self._memory)[:FLAGS]
        self._freed = freed
        # A deque, which needs no lock: the garbage collector may drop a view at any line here, so a lock
        # could deadlock.
        self._places: deque[int] = deque()

    def view(self, place: int, length: int) -> memoryview:
        """Return the bytes of one tensor, which the reader may modify.

        All later views refer to this array (NumPy and memoryview keep the exporter alive), so it is freed
        with the last one.
        """
        assert self._memory is not None
        array = np.frombuffer(self._memory, np.uint8, length, place)
        weakref.finalize(array, self._release, place).atexit = False
        return memoryview(array)  # type: ignore[arg-type]  # NumPy's stubs for 3.11 have no Buffer

    def _release(self, place: int) -> None:
        self._places.append(place)
        self._freed()

    def take_free_blocks(self) -> list[int]:
        """Return the offsets of blocks without views, which the writer can use again."""
        return [self._places.popleft() for _ in range(len(self._places))]

    def close(self) -> None:
        """Release the memory, which stays mapped until the last view of a tensor is gone."""
        self.flags.release()
        self._memory = None


class Memory:
    """Both directions of the memory between two processes. `send_freed` returns blocks to the writer."""

    def __init__(self, incoming: int, outgoing: int, send_freed: Callable[[list[int]], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._send_freed = send_freed
        self._scheduled = False
        self.incoming = Incoming(incoming, self._schedule_release)
        try:
            self.outgoing = Outgoing(outgoing)
        except OSError:
            self.incoming.close()
            raise

    def _schedule_release(self) -> None:
        # Called in the thread that drops the last view of a tensor.
        if not self._scheduled:
            self._scheduled = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._give_back)

    def _give_back(self) -> None:
        self._scheduled = False
        self._send_freed(self.incoming.take_free_blocks())

    def close(self) -> None:
        self.incoming.close()
        self.outgoing.close()


_NOTHING: Bytes = np.empty(0, np.uint8)
