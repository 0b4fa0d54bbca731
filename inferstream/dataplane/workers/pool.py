"""Runs a model in worker processes."""

from typing import Any

from ...errors import InvalidRequest, WorkerLost
from ...handlers import HttpRequest, HttpResponse
from ...processes.frames import UNENCODABLE
from ...settings import ModelSettings
from ...signature import SIGNATURE
from ...telemetry.queues import QueueMeters
from ...telemetry.steps import StepMeters
from ...types import MetadataModelResponse
from ..call import Call
from ..reply import Reply
from .client import WorkerClient
from .frames import Loaded
from .lost import NeverStarted
from .scheduling import Group


class Pool:
    """The innermost handler of a model that lives in workers; a caller cannot tell it from `Local`."""

    def __init__(
        self, settings: ModelSettings, group: Group[Any], instance: int, loaded: Loaded, limit: float | None
    ) -> None:
        self.settings = settings
        self.strictness = loaded.strictness
        self.signature = SIGNATURE.validate_json(loaded.signature)
        self.capabilities = loaded.capabilities
        self.routes = loaded.routes
        self.slots = settings.max_concurrency or loaded.slots * group.size
        self.loaded = loaded
        self.group = group
        self._instance = instance
        self._limit = limit
        self._metadata = (
            None if loaded.metadata is None else MetadataModelResponse.model_validate_json(loaded.metadata)
        )

    @property
    def ready(self) -> bool:
        """Whether at least one worker would run a call that comes now."""
        return self.group.ready(self._instance)

    async def __call__(self, call: Call) -> Reply:
        try:
            return await self._open(call)
        except NeverStarted:
            self.group.meters.retried()
            return await self._open(call)

    async def _open(self, call: Call) -> Reply:
        process = self._worker()
        self.group.meters.scheduled(process.active)
        try:
            remote = process.open(call, self._instance, self.settings.stream_buffer, self._limit, self._hung)
        except UNENCODABLE as error:
            raise InvalidRequest(f"the request cannot be sent to a worker: {error}") from error
        return await remote.opened()

    def _worker(self) -> WorkerClient:
        process = self.group.least_busy(self._instance)
        if process is None:
            raise WorkerLost(
                f"No worker process of model {self.settings.name} is running; one is being started."
            )
        return process

    def _hung(self, process: WorkerClient) -> None:
        self.group.replace(process, f"runs a request of model {self.settings.name} that does not end")

    def meter(self, queue: QueueMeters, steps: StepMeters | None) -> None:
        """Count here what the workers tell of calls that waited there, and of the model's steps."""
        self.group.meter(self._instance, queue, steps)

    async def metadata(self) -> MetadataModelResponse:
        """What the model said after it had loaded; a busy worker is asked only for words of the author's own."""
        if self._metadata is not None:
            return self._metadata
        return await self._worker().describe(self._instance)

    async def ask(self, request: HttpRequest) -> HttpResponse:
        return await self._worker().ask(self._instance, request)

    async def unload(self) -> None:
        await self.group.unload(self._instance)
        if self.group.empty:
            await self.group.stop()
