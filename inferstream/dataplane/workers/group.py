"""The worker processes that share an environment: each runs every model of the group."""

import asyncio
import json
import logging
from itertools import count

from ...errors import ModelLoadFailed, WorkerLost
from ...settings import ModelSettings, Settings
from ...telemetry.workers import WorkerMeters
from .frames import Load, Loaded, Start
from .process import WorkerProcess
from .slot import Slot
from .spawning import Program

logger = logging.getLogger("inferstream.worker")

_instances = count(1)


class WorkerGroup:
    """Starts its workers with the first model and ends them with the last."""

    def __init__(self, programs: list[Program], settings: Settings, meters: WorkerMeters) -> None:
        self.meters = meters
        self._settings = settings
        self._programs = programs
        self._start = Start(settings.debug, settings.use_structured_logging, settings.logging_settings)
        self._models: dict[int, Load] = {}
        self._loading = 0
        self._slots: list[Slot] = []
        self._turn = 0

    @property
    def size(self) -> int:
        """Workers this group should have."""
        return len(self._programs)

    @property
    def empty(self) -> bool:
        """Whether no model needs it."""
        return not self._models and not self._loading

    def ready(self, instance: int) -> bool:
        """Whether at least one worker has this model ready."""
        for slot in self._slots:
            process = slot.process
            if process is not None and process.models.get(instance):
                return True
        return False

    def least_busy(self, instance: int) -> WorkerProcess | None:
        """The worker with the fewest calls that has this model ready; in turn among equals."""
        best: WorkerProcess | None = None
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

    def replace(self, process: WorkerProcess, why: str) -> None:
        """Put another process in the place of this one."""
        for slot in self._slots:
            slot.replace(process, why)

    async def load(self, settings: ModelSettings) -> tuple[int, Loaded]:
        """Load a model in every worker; returns its instance and what it said of itself. Raises ModelLoadFailed.

        Where other models are served, one worker tries first: a model that crashes must not take all down.
        """
        timeout = self._settings.model_load_timeout
        load = Load(next(_instances), _dump(settings), settings.source, timeout)
        self._loading += 1
        try:
            if not self._slots:
                self._slots = [self._new_slot(program) for program in self._programs]
            first, *others = self._slots
            one_by_one = bool(self._models)
            results = [await self._load(first, settings.name, load)] if one_by_one else []
            rest = others if one_by_one else self._slots
            results += await asyncio.gather(*(self._load(slot, settings.name, load) for slot in rest))
        except BaseException:
            await self.unload(load.instance)
            raise
        finally:
            self._loading -= 1
        self._models[load.instance] = load
        for slot in self._slots:
            slot.catch_up()
        return load.instance, results[0]

    def _new_slot(self, program: Program) -> Slot:
        return Slot(
            lambda: WorkerProcess(program, self._start),
            self._models,
            self.meters,
            self._settings.shutdown_grace,
        )

    async def _load(self, slot: Slot, name: str, load: Load) -> Loaded:
        process: WorkerProcess | None = None
        try:
            async with asyncio.timeout(load.timeout + 1):
                process = await slot.running()
                return await process.load(load)
        except WorkerLost as error:
            raise ModelLoadFailed(f"Model {name} did not load: {error.message}") from None
        except TimeoutError:
            if process is not None:
                slot.replace(process, "still loads a model whose time is over")
            raise ModelLoadFailed(f"Model {name} did not load within {load.timeout:g} s.") from None

    async def unload(self, instance: int) -> None:
        """Run a model's `unload` in every worker."""
        self._models.pop(instance, None)
        processes = [slot.process for slot in self._slots]
        await asyncio.gather(*(process.unload(instance) for process in processes if process is not None))

    async def stop(self) -> None:
        """End every worker."""
        slots, self._slots = self._slots, []
        grace = self._settings.parallel_workers_timeout
        await asyncio.gather(*(slot.stop(grace) for slot in slots))


def _dump(settings: ModelSettings) -> bytes:
    return json.dumps(settings.model_dump(by_alias=True, exclude_unset=True, mode="json")).encode()
