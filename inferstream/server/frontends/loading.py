"""Where a follower gets its models: from their folders, or from the workers that the leader shares."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

import msgspec

from ...dataplane.execution.base import Execution
from ...dataplane.execution.local import Local
from ...dataplane.workers.borrowed import Borrowed, BorrowedGroup
from ...dataplane.workers.caller import Caller
from ...dataplane.workers.passing import Intake
from ...dataplane.workers.pool import Pool
from ...errors import ModelLoadFailed
from ...repository.loading import load_model
from ...settings import ModelSettings, Settings
from ...telemetry.workers import WorkerMeters
from ..custom import build_answering
from . import frames, shares

_decode = msgspec.msgpack.Decoder(frames.Way).decode


class Loading:
    """Loads models as the leader did; `replace` tells it of a worker that is of no use any more."""

    def __init__(
        self, meters: WorkerMeters, replace: Callable[[int, str], None], intake: socket.socket
    ) -> None:
        self._meters = meters
        self._replace = replace
        self._groups: dict[int, BorrowedGroup] = {}
        self._workers: dict[int, tuple[BorrowedGroup, Borrowed]] = {}
        Intake(intake, self._arrived)

    def begin(self, settings: Settings, index: int, count: int) -> None:
        """Know the server's settings, and which of so many front ends this is."""
        self._settings = settings
        self._share = partial(shares.divide, index=index, count=count)

    async def load(self, frame: frames.Prepare) -> Execution:
        """Load a model here, or wait until a worker has it. Raises ModelLoadFailed."""
        settings = ModelSettings.from_complete(frame.settings)
        settings._source = frame.source
        self._share(settings)
        timeout = self._settings.model_load_timeout
        workers = frame.workers
        if workers is None:
            model = await load_model(settings, timeout)
            return Local(model, await build_answering(model))
        group = self._group(workers.group)
        group.workers = workers.size
        try:
            async with asyncio.timeout(timeout):
                await group.has(workers.loaded.instance)
        except TimeoutError:
            raise ModelLoadFailed(f"Model {settings.name}: no worker can be reached.") from None
        limit = settings.request_timeout or self._settings.request_timeout
        return Pool(settings, group, workers.loaded.instance, workers.loaded, limit)

    def _group(self, number: int) -> BorrowedGroup:
        if number not in self._groups:
            self._groups[number] = BorrowedGroup(self._meters, self._of_no_use)
        return self._groups[number]

    def _arrived(self, message: bytes, end: socket.socket, requests: int, responses: int) -> None:
        way = _decode(message)
        group = self._group(way.group)
        self._workers[way.worker] = (group, group.add(way.pid, end, requests, responses))

    def _of_no_use(self, process: Caller, why: str) -> None:
        for worker, (_, known) in self._workers.items():
            if known is process:
                self._replace(worker, why)

    def retired(self, worker: int) -> None:
        """Give a worker no more calls; those it has go on."""
        if worker in self._workers:
            group, process = self._workers[worker]
            group.remove(process)

    def lost(self, worker: int) -> None:
        """A worker has ended."""
        if worker in self._workers:
            group, process = self._workers.pop(worker)
            group.remove(process)
            process.lose()
