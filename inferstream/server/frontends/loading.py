"""Where a follower gets its models: from their folders, or from the workers that the leader shares."""

import asyncio
import socket
from collections.abc import Callable

import msgspec

from ...dataplane.execution.base import Execution
from ...dataplane.execution.local import Local
from ...dataplane.workers.attached import AttachedGroup, AttachedWorker
from ...dataplane.workers.client import WorkerClient
from ...dataplane.workers.loads import WorkerLoads
from ...dataplane.workers.pool import Pool
from ...errors import ModelLoadFailed
from ...repository import Awaiting
from ...settings import ModelSettings, Settings
from ...telemetry.workers import WorkerMeters
from ..custom import build_route_handler
from . import frames, shares

_decode = msgspec.msgpack.Decoder(frames.WorkerConnection).decode


class Loading:
    """Loads models as the leader did, in the front end of this index, of so many.

    `replace` tells the leader of a worker that is of no use any more.
    """

    def __init__(
        self,
        settings: Settings,
        which: tuple[int, int],
        meters: WorkerMeters,
        replace: Callable[[int, str], None],
        loads: WorkerLoads,
        awaiting: Awaiting,
    ) -> None:
        self._settings = settings
        self._index, self._count = which
        self._meters = meters
        self._replace = replace
        self._loads = loads
        self._awaiting = awaiting
        self._groups: dict[int, AttachedGroup] = {}
        self._workers: dict[int, tuple[AttachedGroup, AttachedWorker]] = {}

    async def load(self, frame: frames.Prepare) -> Execution:
        """Load a model here, or wait until a worker has it. Raises ModelLoadFailed."""
        settings = ModelSettings.from_complete(frame.settings)
        settings._source = frame.source
        shares.divide(settings, self._index, self._count)
        timeout = self._settings.model_load_timeout
        workers = frame.workers
        if workers is None:
            return await Local.load(settings, timeout, build_route_handler, self._awaiting)
        group = self._group(workers.group)
        group.workers = workers.size
        try:
            async with asyncio.timeout(timeout):
                await group.has(workers.loaded.instance)
        except TimeoutError:
            raise ModelLoadFailed(f"Model {settings.name}: no worker can be reached.") from None
        limit = settings.request_timeout or self._settings.request_timeout
        return Pool(settings, group, workers.loaded.instance, workers.loaded, limit)

    def _group(self, number: int) -> AttachedGroup:
        if number not in self._groups:
            self._groups[number] = AttachedGroup(self._meters, self._of_no_use)
        return self._groups[number]

    def arrived(self, message: bytes, end: socket.socket, requests: int, responses: int) -> None:
        """A way to a worker has come. Raises OSError when its memory cannot be had."""
        connection = _decode(message)
        group = self._group(connection.group)
        process = group.add(connection.pid, end, (requests, responses), self._loads.of(connection.worker))
        self._workers[connection.worker] = (group, process)

    def _of_no_use(self, process: WorkerClient, why: str) -> None:
        for worker, (_, known) in self._workers.items():
            if known is process:
                self._replace(worker, why)

    def retired(self, worker: int) -> None:
        """Give a worker no more calls; those it has go on."""
        if worker in self._workers:
            group, process = self._workers[worker]
            group.remove(process)

    def lost(self, worker: int, how: str) -> None:
        """A worker has ended, in this way."""
        if worker in self._workers:
            group, process = self._workers.pop(worker)
            group.remove(process)
            process.lose(how)
