"""Runs a model that may leave memory, in workers of its own."""

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
    """The workers of one model, which end when it leaves memory and start when it comes back."""

    loaded: Loaded
    """What the first load has told; not set before."""

    def __init__(self, settings: ModelSettings, group: WorkerGroup) -> None:
        self._settings = settings
        self._group = group
        self.instance = 0

    def processes(self) -> list[int]:
        return self._group.processes

    async def bring(self) -> None:
        if self.instance:
            await self._group.wake(self._settings.name, self.instance)
        else:
            self.instance, self.loaded = await self._group.load(self._settings)

    async def take(self) -> None:
        await self._group.sleep(self.instance)


class ResidentPool(Pool):
    """A pool whose calls wait for the model to come into memory. It is ready when it is not there."""

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
        """Load a model when there is room. Raises ModelLoadFailed, OutOfMemory."""
        own = OwnWorkers(settings, group)
        resident = residency.add((settings.name, settings.version), own, settings.pinned)
        try:
            await residency.load(resident)
        except BaseException:  # a cancelled load too
            await residency.remove(resident)
            if own.instance:
                await group.unload(own.instance)
            raise
        return cls(settings, group, own, limit, residency, resident)

    @property
    def ready(self) -> bool:
        """False while its workers say that it is not. It is ready without a worker, which its calls wait for."""
        own = self._instance
        return not self.resident.loaded or self.group.ready(own) or not self.group.has_now(own)

    async def __call__(self, call: Call) -> Reply:
        await self._enter()
        try:
            reply = await super().__call__(call)
        except BaseException:  # a cancelled call too
            self.resident.left()
            raise
        if not reply.single:
            return reply.watch(self.resident)
        self.resident.left()
        return reply

    async def _enter(self) -> None:
        """Begin a use of the model, when a worker has it. Raises ModelNotReady, OutOfMemory, WorkerLost."""
        try:
            await self.resident.enter()
        except ModelLoadFailed:
            raise ModelNotReady(self.settings.name, self.settings.version, failed=True) from None
        if not self.group.ready(self._instance):
            try:
                await self._present()  # its worker may have died, and is then being replaced
                if not self.ready:
                    raise ModelNotReady(self.settings.name, self.settings.version)
            except BaseException:  # a cancelled call too
                self.resident.left()
                raise

    async def metadata(self) -> MetadataModelResponse:
        if self._metadata is not None:
            return self._metadata
        return await self._using(super().metadata)

    async def ask(self, request: HttpRequest) -> HttpResponse:
        await self._enter()
        try:
            response = await super().ask(request)
        except BaseException:  # a cancelled request too
            self.resident.left()
            raise
        if response.rest is not None:
            return response._replace(rest=_UsingBody(response.rest, self.resident))
        self.resident.left()
        return response

    async def _using(self, act: Callable[[], Awaitable[Result]]) -> Result:
        await self._enter()
        try:
            return await act()
        finally:
            self.resident.left()

    def meter(self, meters: ModelMeters) -> None:
        super().meter(meters)
        self.resident.meter(meters.of(ResidencyMeters))

    async def unload(self) -> None:
        await self._residency.remove(self.resident)
        await super().unload()


class _UsingBody:
    """A streamed response body, which keeps its model in memory until it is closed."""

    def __init__(self, body: ResponseBody, resident: Resident) -> None:
        self._resident = resident
        self._body = body
        self.read = body.read

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            self._resident.left()
