"""Models on demand: they run in dedicated workers, and can be evicted from memory."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...errors import ModelLoadFailed, ModelNotReady
from ...handlers import HttpRequest, HttpResponse, ResponseBody
from ...settings import ModelSettings
from ...telemetry.model_meters import ModelMeters
from ...telemetry.stages import ResidencyMeters
from ...types import MetadataModelResponse
from ..call import Call
from ..reply import Reply
from ..residency import Residency, Resident
from .frames import Loaded
from .group import WorkerGroup
from .pool import Pool

Result = TypeVar("Result")


class OwnWorkers:
    """The dedicated workers of one model. They stop when it is evicted, and start when it is loaded."""

    loaded: Loaded
    """The description from the first load. Unset before that."""

    def __init__(self, settings: ModelSettings, group: WorkerGroup) -> None:
        self._settings = settings
        self._group = group
        self.instance = 0

    def processes(self) -> list[int]:
        return self._group.processes

    async def start(self) -> None:
        if self.instance:
            await self._group.wake(self._settings.name, self.instance)
        else:
            self.instance, self.loaded = await self._group.load(self._settings)

    async def stop(self) -> None:
        await self._group.sleep(self.instance)


class ResidentPool(Pool):
    """A pool whose calls wait until the model is in memory. It counts as ready even while it is evicted."""

    resident: Resident

    def __init__(
        self,
        settings: ModelSettings,
        group: WorkerGroup,
        own: OwnWorkers,
        limit: float | None,
        residency: Residency,
        resident: Resident,
    ) -> None:
        super().__init__(settings, group, own.instance, own.loaded, limit)
        self._residency = residency
        self.resident = resident

    @classmethod
    async def load(
        cls, settings: ModelSettings, group: WorkerGroup, limit: float | None, residency: Residency
    ) -> "ResidentPool":
        """Load a model once there is enough memory. Raises ModelLoadFailed or OutOfMemory."""
        own = OwnWorkers(settings, group)
        resident = residency.add((settings.name, settings.version), own, settings.pinned)
        try:
            await residency.load(resident)
        except BaseException:  # Including cancellation.
            await residency.remove(resident)
            if own.instance:
                await group.unload(own.instance)
            raise
        return cls(settings, group, own, limit, residency, resident)

    @property
    def ready(self) -> bool:
        """False only if its workers report that it is not ready. Without a worker, calls wait."""
        own = self._instance
        return not self.resident.loaded or self.group.ready(own) or not self.group.has_model(own)

    async def __call__(self, call: Call) -> Reply:
        await self._enter()
        try:
            reply = await super().__call__(call)
        except BaseException:  # Including cancellation.
            self.resident.leave()
            raise
        if not reply.single:
            return reply.watch(self.resident)
        self.resident.leave()
        return reply

    async def _enter(self) -> None:
        """Start a use of the model, once a worker has it. Raises ModelNotReady, OutOfMemory or WorkerLost."""
        try:
            await self.resident.enter()
        except ModelLoadFailed:
            raise ModelNotReady(self.settings.name, self.settings.version, failed=True) from None
        if not self.group.ready(self._instance):
            try:
                await self._wait_for_worker()  # Its worker may have died. Then it is being replaced.
                if not self.ready:
                    raise ModelNotReady(self.settings.name, self.settings.version)
            except BaseException:  # Including cancellation.
                self.resident.leave()
                raise

    async def metadata(self) -> MetadataModelResponse:
        if self._metadata is not None:
            return self._metadata
        return await self._run_in_memory(super().metadata)

    async def call_route(self, request: HttpRequest) -> HttpResponse:
        await self._enter()
        try:
            response = await super().call_route(request)
        except BaseException:  # Including cancellation.
            self.resident.leave()
            raise
        if response.rest is not None:
            return response._replace(rest=_UsingBody(response.rest, self.resident))
        self.resident.leave()
        return response

    async def _run_in_memory(self, act: Callable[[], Awaitable[Result]]) -> Result:
        await self._enter()
        try:
            return await act()
        finally:
            self.resident.leave()

    def meter(self, meters: ModelMeters) -> None:
        super().meter(meters)
        self.resident.meter(meters.of(ResidencyMeters))

    async def unload(self) -> None:
        await self._residency.remove(self.resident)
        await super().unload()


class _UsingBody:
    """A streamed response body that keeps its model in memory until it is closed."""

    def __init__(self, body: ResponseBody, resident: Resident) -> None:
        self._resident = resident
        self._body = body
        self.read = body.read

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            self._resident.leave()
