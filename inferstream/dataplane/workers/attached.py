"""Workers of another process, for a front end that calls them."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from ...processes.endpoint import Handlers
from ...processes.link import Link
from ...telemetry.workers import WorkerMeters
from . import frames
from .client import WorkerClient
from .loads import WorkerLoad
from .pool import Group

OWNERS_WORD = 0.5
"""Seconds for the owner of a worker to report how it ended."""


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
        self.share(load)
        self._news = news
        self._how = "has ended"
        unloaded: Handlers = {frames.Unloaded: lambda frame: self.models.pop(frame.instance, None)}
        self._connect(pid, partial(Link, end), unloaded, self._hung_up)

    @property
    def how(self) -> str:
        return self._how

    @property
    def process(self) -> WorkerClient | None:
        """Itself: this worker is its own slot for as long as it runs."""
        return self

    def _readiness(self, frame: frames.Readiness) -> None:
        super()._readiness(frame)
        self._news()

    def _hung_up(self) -> None:
        self.models.clear()
        asyncio.get_running_loop().call_later(OWNERS_WORD, self.lose, self._how)

    def lose(self, how: str) -> None:
        if not self.ended.is_set():
            self._how = how
            self._lose()


class AttachedGroup(Group):
    """The workers that this front end is connected to. `replace` asks their owner for another process."""

    owned = False

    def __init__(self, meters: WorkerMeters, replace: Callable[[WorkerClient, str], None]) -> None:
        super().__init__(meters)
        self._slots: list[AttachedWorker] = []
        self._replace = replace
        self._news = asyncio.Event()

    def add(self, pid: int, end: socket.socket, memory: tuple[int, int], load: WorkerLoad) -> AttachedWorker:
        """Add a worker. Raises OSError if its memory cannot be mapped."""
        process = AttachedWorker(pid, end, memory, load, self._news.set)
        process.resized = self.resized
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
