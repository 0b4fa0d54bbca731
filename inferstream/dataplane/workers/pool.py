"""Runs a model in worker processes, each call in the least busy one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from ...errors import InvalidRequest, WorkerLost, WorkerRestarting
from ...handlers import HttpRequest, HttpResponse
from ...processes.errors import OutOfMemory
from ...processes.frames import UNENCODABLE
from ...settings import ModelSettings
from ...signature import SIGNATURE
from ...telemetry.model_meters import ModelMeters
from ...telemetry.workers import WorkerMeters
from ...types import MetadataModelResponse
from ...types.forms import InputsForm
from ..call import Call
from ..reply import Reply
from ..slots import Slots
from ..turns import Turns
from .client import NeverStarted, WorkerClient
from .frames import Loaded

if TYPE_CHECKING:
    from ..residency import Resident

RETURN = 300.0
"""Time that a call waits for a replacement of a worker that has run out of memory, in seconds."""


class WorkerSlot(Protocol):
    @property
    def process(self) -> WorkerClient | None:
        """The current process in this slot."""


class Group:
    """Workers that run the same models. They belong to another process unless a subclass owns them."""

    size = 0
    """The intended number of workers."""
    owned = True
    """Whether this process started them."""
    _slots: Sequence[WorkerSlot] = ()

    def __init__(self, meters: WorkerMeters) -> None:
        self.meters = meters
        self.sized: dict[int, Slots] = {}
        """Total number of concurrent calls of each instance, unless the settings of its model define it."""
        self._turn = 0
        self.news = asyncio.Event()
        """Set when a worker reports a model."""
        self.relieve: Callable[[], Awaitable[None]] | None = None
        """Frees the memory of idle models. None if this process has none."""

    def has_model(self, instance: int) -> bool:
        """Whether at least one worker has loaded this model, ready or not."""
        return any(slot.process and instance in slot.process.models for slot in self._slots)

    async def wait_for_model(self, instance: int) -> None:
        """Wait until at least one worker has loaded this model."""
        while not self.has_model(instance):
            self.news.clear()
            await self.news.wait()

    def resize(self, instance: int, slots: int) -> None:
        """Handle the report of a worker that has loaded this model and accepts `slots` concurrent calls.

        The other workers will accept the same number.
        """
        self.news.set()
        sized = self.sized.get(instance)
        if sized is not None:
            sized.resize(slots * self.size)

    def ready(self, instance: int) -> bool:
        """Whether at least one worker has this model ready."""
        processes = (slot.process for slot in self._slots)
        return any(process is not None and process.models.get(instance) for process in processes)

    def is_running(self, process: WorkerClient, instance: int) -> bool:
        """Whether this process is one of the workers and has this model ready."""
        return any(slot.process is process for slot in self._slots) and bool(process.models.get(instance))

    def least_busy(self, instance: int) -> WorkerClient | None:
        """Return the worker with the fewest calls that has this model ready. Ties are broken round robin."""
        best: WorkerClient | None = None
        fewest = 0
        slots = self._slots
        self._turn += 1
        for i in range(len(slots)):
            process = slots[(self._turn + i) % len(slots)].process
            if process is None or not process.models.get(instance):
                continue
            if best is None or process.active < fewest:
                best, fewest = process, process.active
        return best

    def replace(self, process: WorkerClient, why: str) -> None:
        """Replace this process with a new one."""

    def meter(self, instance: int, meters: ModelMeters) -> None:
        """Add the metrics of a model in all workers to these meters."""

    async def unload(self, instance: int) -> None:
        """Unload a model. Unloading the last one stops all workers."""


class Pool:
    """The innermost handler of a model in workers. It behaves like `Local`."""

    resident: "Resident | None" = None
    has_workers = True

    def __init__(
        self, settings: ModelSettings, group: Group, instance: int, loaded: Loaded, limit: float | None
    ) -> None:
        if loaded.configuration:
            settings.configuration = loaded.configuration
        self.settings = settings
        self.strictness = loaded.strictness
        self.signature = SIGNATURE.validate_json(loaded.signature)
        self.capabilities = loaded.capabilities
        self.form: InputsForm | None = None  # Values would be sent as tensors.
        self.routes = loaded.routes
        self.slots = Slots(settings.max_concurrency or loaded.slots * group.size)
        if settings.max_concurrency is None:
            group.sized[instance] = self.slots
        self.loaded = loaded
        self.group = group
        self._instance = instance
        self._limit = limit
        self._by_affinity: WeakKeyDictionary[object, WorkerClient] = WeakKeyDictionary()
        self._metadata = (
            None if loaded.metadata is None else MetadataModelResponse.model_validate_json(loaded.metadata)
        )

    @property
    def ready(self) -> bool:
        return self.group.ready(self._instance)

    @property
    def is_restarting(self) -> bool:
        return not self.group.has_model(self._instance)

    async def __call__(self, call: Call) -> Reply:
        try:
            return await self._open(call)
        except NeverStarted:
            self.group.meters.retried += 1
        except OutOfMemory:
            # Persistent workers would fail again. For bidirectional streams, the old worker has consumed some
            # requests.
            if self.resident is None or call.more is not None:
                raise
            self.group.meters.retried += 1
            if self.group.relieve is not None:
                await self.group.relieve()
            await self._wait_for_worker()
        return await self._open(call)

    async def _wait_for_worker(self) -> None:
        """Wait until a worker has the model. Raises WorkerLost."""
        try:
            async with asyncio.timeout(RETURN):
                await self.group.wait_for_model(self._instance)
        except TimeoutError:
            raise self._no_worker_error() from None

    async def _open(self, call: Call) -> Reply:
        process = self._worker() if call.affinity is None else self._find_worker(call.affinity)
        self.group.meters.depths.observe(process.active)
        try:
            remote = process.open(
                call, self._instance, self.settings.stream_buffer, self._limit, self._replace_hung_worker
            )
        except UNENCODABLE as error:
            raise InvalidRequest(f"the request cannot be sent to a worker: {error}") from error
        try:
            return await remote.wait_for_reply()
        except OutOfMemory:
            if self.resident is not None:  # Its memory may be fragmented, and it has no other model.
                self.group.replace(process, "ran out of memory")
            raise

    def _worker(self) -> WorkerClient:
        process = self.group.least_busy(self._instance)
        if process is None:
            raise self._no_worker_error()
        return process

    def _find_worker(self, affinity: object) -> WorkerClient:
        """Return the worker that ran the first call with this affinity. Raises WorkerLost if it has died."""
        known = self._by_affinity.get(affinity)
        if known is None:
            known = self._by_affinity[affinity] = self._worker()
        if not self.group.is_running(known, self._instance):
            raise WorkerLost(
                f"The worker process of model {self.settings.name} that has run this sequence has ended; begin it anew."
            )
        return known

    def _no_worker_error(self) -> WorkerRestarting:
        return WorkerRestarting(
            f"No worker process of model {self.settings.name} is running; one is being started."
        )

    def _replace_hung_worker(self, process: WorkerClient) -> None:
        self.group.replace(process, f"runs a request of model {self.settings.name} that does not end")

    @property
    def capacity(self) -> int:
        """The workers' limit for all front ends. Only the front end that owns them reports it."""
        if self.settings.max_concurrency is not None and not self.capabilities.steps:
            return self.slots.count
        if not self.group.owned:
            return 0
        return self.settings.max_active * self.group.size if self.capabilities.steps else self.slots.count

    def measure(self) -> None:
        """Do nothing, because the workers report these metrics."""

    def meter(self, meters: ModelMeters) -> None:
        self.group.meter(self._instance, meters)

    def set_turns(self, turns: Turns) -> None:
        """Do nothing, because each worker schedules the calls of all front ends itself."""

    async def metadata(self) -> MetadataModelResponse:
        """Return the metadata from the load, or query a worker if the model computes it each time."""
        if self._metadata is not None:
            return self._metadata
        return await self._worker().describe(self._instance)

    async def call_route(self, request: HttpRequest) -> HttpResponse:
        return await self._worker().call_route(self._instance, request)

    async def unload(self) -> None:
        self.group.sized.pop(self._instance, None)
        await self.group.unload(self._instance)
