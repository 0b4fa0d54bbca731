"""Groups of worker processes with the same environment. Each worker runs every model of its group."""

import asyncio
import json
import logging
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from typing import Protocol, cast

from ...errors import ModelLoadFailed, WorkerLost
from ...processes.spawning import REAPED, Program
from ...settings import ModelSettings, Settings
from ...telemetry.model_meters import ModelMeters
from ...telemetry.workers import WorkerMeters
from .client import Suspected, WorkerClient
from .frames import Loaded, LoadInstance
from .pool import Group
from .process import InstanceMeters, WorkerProcess
from .spares import Spares, first_frame
from .worker_keeper import WorkerKeeper

logger = logging.getLogger("inferstream.worker")

_instances = count(1)
_groups = count(1)


STARTING = 5.0
"""Time in addition to the load timeout, in seconds, for starting a process and for abandoning a load."""


class WorkerSharing(Protocol):
    """Shares the workers of this process with other front ends."""

    def introduce(self, group: "WorkerGroup", process: WorkerProcess) -> None:
        """Announce a new worker of this group."""

    def withdraw(self, process: WorkerProcess) -> None:
        """Announce that a worker accepts no new calls, and will exit once its calls have finished."""


class WorkerGroup(Group):
    """Starts its workers with the first model, and stops them with the last."""

    def __init__(
        self,
        programs: list[Program],
        settings: Settings,
        meters: WorkerMeters,
        others: WorkerSharing | None = None,
        spares: Spares | None = None,
    ) -> None:
        super().__init__(meters)
        self.number = next(_groups)
        self._others = others
        self._settings = settings
        self._programs = programs
        self.size = len(programs)
        self._slots: list[WorkerKeeper] = []
        self._start = first_frame(settings, len(programs))
        self._spares = spares
        self._asleep: dict[int, LoadInstance] = {}
        """Models that are not in memory."""
        self._models: dict[int, LoadInstance] = {}
        self._meters: dict[int, ModelMeters] = {}
        self._loading = 0
        self._verdict = asyncio.Lock()

    @property
    def empty(self) -> bool:
        """Whether the group has no models."""
        return not self._models and not self._loading and not self._asleep

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers."""
        return [slot.process.pid for slot in self._slots if slot.process is not None]

    def meter(self, instance: int, meters: ModelMeters) -> None:
        early, self._meters[instance] = self._meters.get(instance), meters
        for kind, counted in early.stages.items() if early is not None else ():
            if (changes := counted.drain()) is not None:
                meters.of(kind).add(changes)

    def replace(self, process: WorkerClient, why: str) -> None:
        for slot in self._slots:
            slot.replace(process, why)

    async def load(self, settings: ModelSettings) -> tuple[int, Loaded]:
        """Load a model in every worker. Returns its instance number and description. Raises ModelLoadFailed.

        If the group already serves other models, one worker loads it first, because a model may crash its
        worker.
        """
        timeout = self._settings.model_load_timeout
        load = LoadInstance(next(_instances), dump(settings), settings.source, timeout)
        return load.instance, await self._begin(settings.name, load)

    async def _begin(self, name: str, load: LoadInstance) -> Loaded:
        self._loading += 1
        try:
            if not self._slots:
                self._slots = [self._new_slot(program) for program in self._programs]
            loaded = await self._load_everywhere(name, load)
        except BaseException:  # Including cancellation.
            self._loading -= 1
            await self._withdraw(load.instance)
            raise
        self._loading -= 1
        self._models[load.instance] = load
        for slot in self._slots:
            slot.catch_up()
        return loaded

    async def sleep(self, instance: int) -> None:
        """Unload a model that has dedicated workers, and stop them. `wake` loads it again.

        If `unload` takes too long, the workers are stopped anyway, because other models need the memory.
        """
        self._asleep[instance] = self._models.pop(instance)
        await self._withdraw(instance, self._settings.parallel_workers_timeout)

    async def wake(self, name: str, instance: int) -> None:
        """Restart the workers of a sleeping model and load it. If the load fails, it stays asleep.

        Raises ModelLoadFailed.
        """
        load = self._asleep[instance]
        await self._begin(name, load)
        del self._asleep[instance]

    async def _load_everywhere(self, name: str, load: LoadInstance) -> Loaded:
        try:
            return await self._load_in(self._slots, name, load, one_first=bool(self._models))
        except Suspected:
            async with self._verdict:
                while True:  # repeat until no other loading model could be the cause
                    await self._withdraw(load.instance)
                    with suppress(Suspected):
                        return await self._load_in(self._slots, name, load, one_first=True)

    async def _load_in(
        self, slots: list[WorkerKeeper], name: str, load: LoadInstance, one_first: bool
    ) -> Loaded:
        # Workers may report meters while the model loads.
        self._meters.setdefault(load.instance, ModelMeters(name, None))
        if one_first and slots[1:]:
            await self._load_in(slots[:1], name, load, one_first=False)
            slots = slots[1:]
        loading = (self._load(slot, name, load) for slot in slots)
        # Wait for all, even after a failure, because models that have loaded must be unloaded again.
        results = await asyncio.gather(*loading, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return cast(Loaded, results[0])

    def _new_slot(self, program: Program) -> WorkerKeeper:
        spawn = partial(self._spawn, program)
        retired = None if self._others is None else self._others.withdraw
        settings = self._settings
        return WorkerKeeper(
            spawn, self._models, self.meters, settings.shutdown_grace, settings.worker_heartbeat, retired
        )

    def _spawn(self, program: Program) -> WorkerProcess:
        shared = self._others is not None
        process = None if self._spares is None else self._spares.take(program)
        if process is None:
            process = WorkerProcess(program, self._start, InstanceMeters(self._meters), shared=shared)
        else:
            process.adopt(self._meters)
        process.resized = self.resize
        if self._others is not None:
            self._others.introduce(self, process)
        return process

    async def _load(self, slot: WorkerKeeper, name: str, load: LoadInstance) -> Loaded:
        process: WorkerProcess | None = None
        try:
            async with asyncio.timeout(load.timeout + STARTING):
                process = await slot.running()
                return await process.load(load)
        except Suspected:
            raise
        except WorkerLost as error:
            raise ModelLoadFailed(f"Model {name} did not load: {error.message}") from None
        except TimeoutError:
            if process is not None:
                slot.replace(process, "still loads a model whose time is over")
            raise ModelLoadFailed(f"Model {name} did not load within {load.timeout:g} s.") from None

    async def unload(self, instance: int) -> None:
        self._asleep.pop(instance, None)
        await self._withdraw(instance)
        self._meters.pop(instance, None)

    async def _withdraw(self, instance: int, limit: float | None = None) -> None:
        """Unload a model in every worker within `limit` seconds. Stops workers without models."""
        self._models.pop(instance, None)
        processes = [slot.process for slot in self._slots]
        unloading = (self._unload(process, instance) for process in processes if process is not None)
        try:
            async with asyncio.timeout(limit):
                await asyncio.gather(*unloading)
        except TimeoutError:
            logger.error("model is still unloading after %g s; stopping its workers", limit)
        if not self._models and not self._loading:
            await self.end(inf)

    async def _unload(self, process: WorkerProcess, instance: int) -> None:
        """Wait for a model's `unload` without a limit, unless other code blocks the worker."""
        unloading = asyncio.create_task(process.unload(instance))
        try:
            while not (await asyncio.wait([unloading], timeout=self._settings.parallel_workers_timeout))[0]:
                if await process.makes_no_progress():
                    logger.error(
                        "worker %d is blocked; it will unload the model when it responds again", process.pid
                    )
                    return
        finally:
            unloading.cancel()

    async def end(self, limit: float) -> bool:
        """Stop all workers within `limit` seconds. Returns False if one had to be killed."""
        slots, self._slots = self._slots, []
        grace = max(0.0, min(self._settings.parallel_workers_timeout, limit - 2 * REAPED))
        return all(await asyncio.gather(*(slot.stop(grace) for slot in slots)))


def dump(settings: ModelSettings) -> bytes:
    return json.dumps(settings.model_dump(by_alias=True, exclude_unset=True, mode="json")).encode()
