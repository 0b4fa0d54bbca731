"""Workers that another front end has started, and that run this one's calls too."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from ...processes.link import Link
from ...telemetry.queues import QueueMeters
from ...telemetry.steps import StepMeters
from ...telemetry.workers import WorkerMeters
from . import frames
from .client import WorkerClient
from .loads import CountedCalls, WorkerLoad
from .scheduling import Group

OWNERS_WORD = 0.5
"""Seconds that the owner may take to say how a worker has ended that is there no more."""


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
        self._loop.call_later(OWNERS_WORD, self.lose, self._how)

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
