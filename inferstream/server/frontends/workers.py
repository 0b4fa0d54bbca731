"""A front end's connections to the supervisor's workers, and the loading of models there or locally."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

import msgspec

from ...dataplane.execution.base import Execution
from ...dataplane.execution.local import Local
from ...dataplane.stages.live import time_limit
from ...dataplane.workers.call_counts import WorkerLoads
from ...dataplane.workers.client import WorkerClient
from ...dataplane.workers.frames import Unloaded
from ...dataplane.workers.pool import Group, Pool
from ...errors import ModelLoadFailed
from ...processes.endpoint import Handlers
from ...processes.frames import Frame
from ...processes.link import Link
from ...settings import ModelSettings, Settings
from ...telemetry.workers import WorkerMeters
from ..custom import build_route_handler
from . import frames
from .models import reduce_to_share

OWNERS_WORD = 0.5
"""Seconds that the supervisor has to report how a worker exited."""

Send = Callable[[Frame], object]

_decode = msgspec.msgpack.Decoder(frames.WorkerConnection).decode


class AttachedWorker(WorkerClient):
    """A worker of the supervisor, reached through a socket and shared memory from the supervisor.

    The worker reports its loaded models.
    """

    def __init__(
        self, group: "AttachedGroup", number: int, pid: int, end: socket.socket, memory: tuple[int, int]
    ) -> None:
        super().__init__(*memory)
        self.group = group
        self.number = number
        self.resized = group.resize
        unloaded: Handlers = {Unloaded: lambda frame: self.models.pop(frame.instance, None)}
        self._connect(pid, partial(Link, end), unloaded, self._handle_hang_up)

    @property
    def process(self) -> WorkerClient | None:
        """The process in this slot, which is the worker itself."""
        return self

    def _handle_hang_up(self) -> None:
        self.models.clear()
        asyncio.get_running_loop().call_later(OWNERS_WORD, self.lose, "has ended")

    def lose(self, how: str, starved: bool = False) -> None:
        if not self.ended.is_set():
            self._lose(how, starved)


class AttachedGroup(Group):
    """The workers that this front end is connected to. `replace` requests another from the supervisor."""

    owned = False

    def __init__(self, meters: WorkerMeters, send: Send) -> None:
        super().__init__(meters)
        self._slots: list[AttachedWorker] = []
        self._send = send

    def add(self, worker: AttachedWorker) -> None:
        self._slots.append(worker)

    def remove(self, process: WorkerClient) -> None:
        """Stop sending calls to this worker. Its calls in progress continue."""
        self._slots = [worker for worker in self._slots if worker is not process]

    def replace(self, process: WorkerClient, why: str) -> None:
        assert isinstance(process, AttachedWorker)
        process.models.clear()
        self._send(frames.Replace(process.number, why))


class Loading:
    """Loads the models that the supervisor has loaded.

    `which` is the index of this front end and the number of front ends.
    """

    def __init__(
        self, settings: Settings, which: tuple[int, int], meters: WorkerMeters, send: Send, loads: WorkerLoads
    ) -> None:
        self._settings = settings
        self._index, self._count = which
        self._meters = meters
        self._send = send
        self._loads = loads
        self._groups: dict[int, AttachedGroup] = {}
        self._workers: dict[int, AttachedWorker] = {}

    async def load(self, frame: frames.Prepare) -> Execution:
        """Load a model locally, or wait until a worker has loaded it. Raises ModelLoadFailed."""
        settings = ModelSettings.from_complete(frame.settings)
        settings._source = frame.source
        reduce_to_share(settings, self._index, self._count)
        timeout = self._settings.model_load_timeout
        workers = frame.workers
        if workers is None:
            return await Local.load(settings, timeout, build_route_handler)
        group = self._group(workers.group)
        group.size = workers.size
        try:
            async with asyncio.timeout(timeout):
                await group.wait_for_model(workers.loaded.instance)
        except TimeoutError:
            raise ModelLoadFailed(f"Model {settings.name}: no worker can be reached.") from None
        limit = time_limit(settings, self._settings)
        return Pool(settings, group, workers.loaded.instance, workers.loaded, limit)

    def _group(self, number: int) -> AttachedGroup:
        if number not in self._groups:
            self._groups[number] = AttachedGroup(self._meters, self._send)
        return self._groups[number]

    def attach(self, message: bytes, end: socket.socket, requests: int, responses: int) -> None:
        """Attach a worker whose connection has arrived. Raises OSError if its memory cannot be mapped."""
        connection = _decode(message)
        group = self._group(connection.group)
        worker = AttachedWorker(group, connection.worker, connection.pid, end, (requests, responses))
        worker.share(self._loads.of(connection.worker))
        group.add(worker)
        self._workers[connection.worker] = worker

    def retire(self, number: int) -> None:
        """Stop sending calls to a worker. Its calls in progress continue."""
        if (worker := self._workers.get(number)) is not None:
            worker.group.remove(worker)

    def handle_loss(self, frame: frames.Lost) -> None:
        """Fail the calls of a worker that has exited."""
        if (worker := self._workers.pop(frame.worker, None)) is not None:
            worker.group.remove(worker)
            worker.lose(frame.how, frame.starved)
