"""Workers that several front ends call, for their owner and for the others.

Shared memory holds the number of calls of each front end in each worker. A front end chooses the least busy worker
by these numbers. With only its own it could choose one that others keep busy.
"""

import asyncio
import mmap
import os
import socket
from collections.abc import Callable
from functools import partial

from ...processes import descriptors
from ...processes.endpoint import Handlers
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
"""Concurrent workers."""

MOST = 2**16 - 1
"""Larger numbers of calls count as this."""

OWNERS_WORD = 0.5
"""Seconds for the owner of a worker to report how it ended."""


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


class CountedCalls(dict[int, RemoteCall]):
    """The calls of one front end in a worker. Their number is in the shared memory."""

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
    """A worker that accepts connections of other front ends."""

    def __init__(self, program: Program, start: frames.Start, instance_meters: InstanceMeters) -> None:
        self._intake, theirs = descriptors.intake()
        try:
            with theirs:
                super().__init__(program, start, instance_meters, theirs.fileno())
        except BaseException:  # a cancelled start too
            self._intake.close()
            raise

    def share(self, load: WorkerLoad) -> None:
        """Share the number of calls with other front ends; before the first call."""
        self._calls = CountedCalls(load)

    @property
    def active(self) -> int:
        """Calls of all front ends that have not ended in the worker."""
        assert isinstance(self._calls, CountedCalls)
        return self._calls.load.total

    def introduce(self, caller: socket.socket, message: bytes) -> None:
        """Connect a front end to this worker through its intake. Raises OSError."""
        descriptors.pass_connection(self._intake, caller, message)

    def _gone(self) -> None:
        self._intake.close()
        super()._gone()


class AttachedWorker(WorkerClient):
    """A worker of another front end, through a socket and memory from its owner. It reports its loaded models.

    `load` has the calls of all front ends; `news` is called when a model is loaded.
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
        unloaded: Handlers = {frames.Unloaded: lambda frame: self.models.pop(frame.instance, None)}
        self._connect(pid, partial(Link, end), unloaded, self._hung_up)

    @property
    def active(self) -> int:
        return self._load.total

    @property
    def how(self) -> str:
        return self._how

    @property
    def process(self) -> WorkerClient | None:
        """Itself: this worker is its own slot for as long as it runs."""
        return self

    def _readiness(self, frame: frames.Readiness) -> None:
        self.models[frame.instance] = frame.ready
        self._news()

    def _hung_up(self) -> None:
        self.models.clear()
        asyncio.get_running_loop().call_later(OWNERS_WORD, self.lose, self._how)

    def lose(self, how: str) -> None:
        if not self.ended.is_set():
            self._how = how
            self._lose()


class AttachedGroup(Group["AttachedWorker"]):
    """The workers that this front end is connected to. `replace` asks their owner for another process."""

    def __init__(self, meters: WorkerMeters, replace: Callable[[WorkerClient, str], None]) -> None:
        super().__init__(meters)
        self._replace = replace
        self._news = asyncio.Event()
        self.workers = 0
        """Workers that the owner keeps."""

    @property
    def size(self) -> int:
        return self.workers

    @property
    def empty(self) -> bool:
        return False  # the owner ends it

    def add(self, pid: int, end: socket.socket, memory: tuple[int, int], load: WorkerLoad) -> AttachedWorker:
        """Add a worker. Raises OSError if its memory cannot be mapped."""
        process = AttachedWorker(pid, end, memory, load, self._news.set)
        self._slots.append(process)
        return process

    def remove(self, process: WorkerClient) -> None:
        """Send no more calls to this worker. Its calls in progress continue."""
        self._slots = [worker for worker in self._slots if worker is not process]

    async def has(self, instance: int) -> None:
        """Wait until at least one worker has loaded this model."""
        while not any(instance in worker.models for worker in self._slots):
            self._news.clear()
            await self._news.wait()

    def replace(self, process: WorkerClient, why: str) -> None:
        self._replace(process, why)

    def meter(self, instance: int, queue: QueueMeters, steps: StepMeters | None) -> None:
        """Does nothing: the workers report to their owner."""

    async def unload(self, instance: int) -> None:
        """Does nothing: the owner unloads the model when no front end uses it."""

    async def stop(self) -> None:
        """Does nothing: the owner ends the workers."""
