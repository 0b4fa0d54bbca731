"""The models of a front end, which the supervisor chooses, loaded from their folders or attached to shared workers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import orjson

from ...dataplane.execution.base import Execution
from ...dataplane.execution.local import Local
from ...dataplane.serving import ServedModel, Serving
from ...dataplane.stages.live import limit_of
from ...dataplane.workers.attached import AttachedGroup, AttachedWorker
from ...dataplane.workers.client import WorkerClient
from ...dataplane.workers.loads import WorkerLoads
from ...dataplane.workers.pool import Pool
from ...errors import ModelLoadFailed
from ...processes.frames import Frame, Query
from ...settings import ModelSettings, Settings
from ...telemetry.metrics import Meters
from ...telemetry.workers import WorkerMeters
from ...types import RepositoryIndexResponseItem, State
from ..custom import build_route_handler
from . import frames
from .access_log import RecordSender
from .models import divide

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer

_decode = msgspec.msgpack.Decoder(frames.WorkerConnection).decode

A = TypeVar("A")


class Asking(Protocol):
    """Asks the supervisor."""

    def __call__(self, question: Query[A]) -> Awaitable[A]: ...


class FrontEndRegistry(Serving):
    """Serves the models that the supervisor chooses, and forwards repository calls to it."""

    def __init__(
        self,
        settings: Settings,
        meters: Meters,
        tracer: "Tracer | None",
        ask: Asking,
        send: Callable[[Frame], object],
    ) -> None:
        super().__init__(settings, meters, tracer)
        self._ask = ask
        self._send = send
        self._supervisor_ready = False
        self._prepared: dict[int, asyncio.Task[ServedModel]] = {}
        self._numbers: dict[ServedModel, int] = {}
        self._held: dict[int, asyncio.Event] = {}
        self._records = RecordSender(send)
        self.subscribers.changed = lambda on: send(frames.Subscribed(on))

    @property
    def ready(self) -> bool:
        """Whether the supervisor is ready, because only the supervisor has the state of all front ends and workers."""
        return self._supervisor_ready and not self.draining

    async def tell(self, frame: frames.Tell) -> None:
        """Take over the supervisor's readiness and the states of models that do not serve."""
        self._supervisor_ready = frame.ready
        self._states = {(name, version): (State(state), "") for name, version, state in frame.states}

    def send_records(self, frame: frames.SendRecords) -> None:
        """Send the supervisor the records of the access log, or no longer."""
        if frame.on:
            self.lines.add(self._records.put)
        else:
            self.lines.remove(self._records.put)

    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        items: bytes = await self._ask(frames.ListModels(ready))
        return [RepositoryIndexResponseItem.model_validate(item) for item in orjson.loads(items)]

    async def load(self, name: str) -> None:
        await self._ask(frames.LoadVersions(name))

    async def unload(self, name: str) -> bool:
        return await self._ask(frames.UnloadVersions(name))

    def prepare(self, number: int, loading: Awaitable[Execution]) -> Coroutine[Any, Any, None]:
        """Begin to load a model without calls; the coroutine raises ModelLoadFailed."""
        self._held[number] = asyncio.Event()
        preparing = self._prepared[number] = asyncio.create_task(self._prepare(loading))
        return _end_of(preparing)

    async def _prepare(self, loading: Awaitable[Execution]) -> ServedModel:
        execution = await loading
        return ServedModel(execution, await self._around(execution))

    async def serve(self, number: int) -> None:
        """Send a model the calls of its name and version. Raises ModelLoadFailed if it did not load."""
        served = await self._prepared[number]
        del self._prepared[number]
        self._numbers[served] = number
        self._put((served.execution.settings.name, served.execution.settings.version), served)

    async def withdraw(self, number: int) -> None:
        """Send a model no more calls, and release it."""
        prepared = self._prepared.pop(number, None)
        if prepared is not None:
            prepared.cancel()
            await asyncio.wait([prepared])
            if not prepared.cancelled() and prepared.exception() is None:
                await prepared.result().execution.unload()
            self._held.pop(number).set()
            return
        for key, served in list(self._served.items()):
            if self._numbers.get(served) == number:
                del self._served[key]
                self._choose_default(key[0])
                self._retire(served)

    async def released(self, number: int) -> None:
        """Wait until nothing uses this model."""
        held = self._held.get(number)
        if held is not None:
            await held.wait()

    def _retire(self, served: ServedModel) -> asyncio.Task[None]:
        retiring = super()._retire(served)
        retiring.add_done_callback(lambda _: self._held.pop(self._numbers.pop(served)).set())
        return retiring


async def _end_of(preparing: asyncio.Task[ServedModel]) -> None:
    await asyncio.wait([preparing])
    if not preparing.cancelled():
        preparing.result()


class Loading:
    """Loads models as the supervisor did. `which` is the index of this front end and the count of all."""

    def __init__(
        self,
        settings: Settings,
        which: tuple[int, int],
        meters: WorkerMeters,
        send: Callable[[Frame], object],
        loads: WorkerLoads,
    ) -> None:
        self._settings = settings
        self._index, self._count = which
        self._meters = meters
        self._send = send
        self._loads = loads
        self._groups: dict[int, AttachedGroup] = {}
        self._workers: dict[int, tuple[AttachedGroup, AttachedWorker]] = {}

    async def load(self, frame: frames.Prepare) -> Execution:
        """Load a model here, or wait until a worker has it. Raises ModelLoadFailed."""
        settings = ModelSettings.from_complete(frame.settings)
        settings._source = frame.source
        divide(settings, self._index, self._count)
        timeout = self._settings.model_load_timeout
        workers = frame.workers
        if workers is None:
            return await Local.load(settings, timeout, build_route_handler)
        group = self._group(workers.group)
        group.size = workers.size
        try:
            async with asyncio.timeout(timeout):
                await group.has(workers.loaded.instance)
        except TimeoutError:
            raise ModelLoadFailed(f"Model {settings.name}: no worker can be reached.") from None
        limit = limit_of(settings, self._settings)
        return Pool(settings, group, workers.loaded.instance, workers.loaded, limit)

    def _group(self, number: int) -> AttachedGroup:
        if number not in self._groups:
            self._groups[number] = AttachedGroup(self._meters, self._of_no_use)
        return self._groups[number]

    def arrived(self, message: bytes, end: socket.socket, requests: int, responses: int) -> None:
        """Attach a worker whose connection has arrived. Raises OSError if its memory cannot be mapped."""
        connection = _decode(message)
        group = self._group(connection.group)
        process = group.add(connection.pid, end, (requests, responses), self._loads.of(connection.worker))
        self._workers[connection.worker] = (group, process)

    def _of_no_use(self, process: WorkerClient, why: str) -> None:
        for worker, (_, known) in self._workers.items():
            if known is process:
                self._send(frames.Replace(worker, why))

    def retired(self, worker: int) -> None:
        """Send a worker no more calls; its present calls continue."""
        if worker in self._workers:
            group, process = self._workers[worker]
            group.remove(process)

    def lost(self, worker: int, how: str) -> None:
        """Fail the calls of a worker that has ended."""
        if worker in self._workers:
            group, process = self._workers.pop(worker)
            group.remove(process)
            process.lose(how)
