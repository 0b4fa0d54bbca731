"""Workers that several front ends call: as their owner sees them, and as the others do.

The number of calls that each front end has in each worker stands in memory that all front ends see. Each of them
chooses the least busy worker by it. With its own numbers alone it would choose one that others keep busy.
"""

import asyncio
import mmap
import os
import socket
from collections.abc import Callable
from functools import partial

from ...processes import descriptors
from ...processes.link import Link
from ...processes.spawning import Program
from ...telemetry.queues import QueueMeters
from ...telemetry.steps import StepMeters
from ...telemetry.workers import WorkerMeters
from . import frames
from .client import WorkerClient
from .pool import Group
from .process import InstanceMeters, WorkerProcess
from .remote_call import RemoteCall

ROWS = 4096
"""Workers there may be at once."""

MOST = 2**16 - 1
"""Calls that are told apart from more."""

OWNERS_WORD = 0.5
"""Seconds that the owner of a worker may take to say how it has ended."""


def create_loads(count: int) -> int:
    """A file descriptor of memory for the loads, empty, for so many front ends."""
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


class SharedProcess(WorkerProcess):
    """Takes in callers beside the one that owns it."""

    def __init__(self, program: Program, start: frames.Start, instance_meters: InstanceMeters) -> None:
        self._intake, theirs = descriptors.intake()
        try:
            with theirs:
                super().__init__(program, start, instance_meters, theirs.fileno())
        except BaseException:
            self._intake.close()
            raise

    def share(self, load: WorkerLoad) -> None:
        """Let the others know of the calls of this one, and count theirs; before there are any."""
        self._calls = CountedCalls(load)

    @property
    def active(self) -> int:
        """Calls of all front ends that have not ended in the worker."""
        assert isinstance(self._calls, CountedCalls)
        return self._calls.load.total

    def introduce(self, caller: socket.socket, message: bytes) -> None:
        """Give a front end a way of its own to this worker, through its intake. Raises OSError."""
        descriptors.pass_connection(self._intake, caller, message)

    def _gone(self) -> None:
        self._intake.close()
        super()._gone()


class AttachedWorker(WorkerClient):
    """A worker, through a socket and memory that its owner has passed on; it says itself what it has loaded.

    `load` is what all front ends have there, `news` is called when a model has come.
    """

    def __init__(
        self,
        pid: int,
        end: socket.socket,
        memory: tuple[int, int],
        load: WorkerLoad,
        news: Callable[[], None],
    ) -> None:
        super().__init__(*memory)
        self._calls = CountedCalls(load)
        self._load = load
        self._news = news
        self._how = "has ended"
        self._frames[frames.Unloaded] = lambda frame: self.models.pop(frame.instance, None)
        self._connect(pid, partial(Link, end, lost=self._hung_up))

    @property
    def active(self) -> int:
        """Calls of all front ends that have not ended in the worker."""
        return self._load.total

    @property
    def how(self) -> str:
        return self._how

    def _readiness(self, frame: frames.Readiness) -> None:
        self.models[frame.instance] = frame.ready
        self._news()

    def _hung_up(self) -> None:
        self.models.clear()
        asyncio.get_running_loop().call_later(OWNERS_WORD, self.lose, self._how)

    def lose(self, how: str) -> None:
        """It has ended, in this way."""
        if not self.ended.is_set():
            self._how = how
            self._lose()


class AttachedSlot:
    """The place of a worker that stays for as long as its process."""

    def __init__(self, process: WorkerClient) -> None:
        self.process: WorkerClient | None = process


class AttachedGroup(Group[AttachedSlot]):
    """The workers of a group as far as this front end has been told of them.

    `replace` asks their owner for another process in the place of one.
    """

    def __init__(self, meters: WorkerMeters, replace: Callable[[WorkerClient, str], None]) -> None:
        super().__init__(meters)
        self._replace = replace
        self._news = asyncio.Event()
        self.workers = 0
        """How many workers the owner keeps."""

    @property
    def size(self) -> int:
        return self.workers

    @property
    def empty(self) -> bool:
        return False  # its owner ends it

    def add(self, pid: int, end: socket.socket, memory: tuple[int, int], load: WorkerLoad) -> AttachedWorker:
        """One more worker. Raises OSError when its memory cannot be had."""
        process = AttachedWorker(pid, end, memory, load, self._news.set)
        self._slots.append(AttachedSlot(process))
        return process

    def remove(self, process: WorkerClient) -> None:
        """Give this worker no more calls; those it has go on."""
        self._slots = [slot for slot in self._slots if slot.process is not process]

    async def has(self, instance: int) -> None:
        """Return once at least one worker has loaded this model."""
        while not any(slot.process and instance in slot.process.models for slot in self._slots):
            self._news.clear()
            await self._news.wait()

    def replace(self, process: WorkerClient, why: str) -> None:
        self._replace(process, why)

    def meter(self, instance: int, queue: QueueMeters, steps: StepMeters | None) -> None:
        """Nothing: the workers tell their owner."""

    async def unload(self, instance: int) -> None:
        """Nothing: their owner unloads it, once every front end has let go of it."""

    async def stop(self) -> None:
        """Nothing: their owner ends them."""
