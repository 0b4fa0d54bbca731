"""Placement of models: in the server process, or in a group of workers."""

import asyncio
import logging
import os
import sys
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ... import processors
from ...errors import ModelLoadFailed
from ...functions.injection import replacements_var
from ...processes.devices import VARIABLE, visible_devices
from ...repository.environments import find_environment, find_python
from ...repository.trust import check_model
from ...settings import ModelSettings, Settings
from ...telemetry.workers import WorkerMeters
from ..access import Authority
from ..execution.base import BuildRouteHandler, Execution
from ..execution.local import Local
from ..residency import HOST, Residency
from ..stages.live import time_limit
from .memory import measure_memory

if TYPE_CHECKING:
    from ...processes.spawning import Program
    from .group import WorkerGroup, WorkerSharing
    from .spares import Spares

logger = logging.getLogger("inferstream.dataplane")

_own_pools = count(1)


class Placement(NamedTuple):
    """Models with equal placements share workers."""

    workers: int
    environment: Path | None
    pool: str | None
    devices: tuple[str, ...]


class Placements:
    """Loads models where their settings place them."""

    def __init__(
        self,
        settings: Settings,
        access: Authority,
        meters: WorkerMeters,
        build_route_handler: BuildRouteHandler,
        worker_script: str,
        others: "WorkerSharing | None" = None,
    ) -> None:
        self._settings = settings
        self._worker_script = worker_script
        self._build_route_handler = build_route_handler
        self._meters = meters
        self._others = others
        self._groups: dict[Placement, WorkerGroup] = {}
        self._spares: Spares | None = None
        limits = {} if settings.max_memory is None else {HOST: settings.max_memory}
        self.residency = Residency(
            {**limits, **settings.max_device_memory},
            settings.idle_unload,
            partial(measure_memory, devices=bool(settings.max_device_memory)),
            lambda: [] if self._spares is None else self._spares.processes,
            calls_evict=access.calls_evict,
            names_models=not access.restricts,
        )

    def start(self) -> None:
        """Start the spare workers from the settings, on the running event loop."""
        if self._settings.spare_workers and self._others is None:
            from .spares import Spares

            self._spares = Spares(self._settings, *self._programs(Placement(1, None, None, ())))
            self._spares.fill()

    async def load(self, settings: ModelSettings) -> Execution:
        """Load a model in this process or in workers.

        Raises ModelLoadFailed, or InvalidSettings if a list of trusted runtimes forbids the model.
        """
        check_model(settings)  # before an environment is unpacked
        if settings.input_validation == "auto" and self._settings.status_profile == "triton":
            settings = settings.model_copy(update={"input_validation": "strict"})
        environment = await find_environment(settings, Path(self._settings.environments_dir))
        devices = await _devices(settings)
        workers = self._workers(settings, devices)
        leaves = settings.may_leave(self._settings)
        if environment is not None or leaves:
            workers = max(workers, 1)
        if leaves and self._others is not None:
            raise ModelLoadFailed(f"Model {settings.name} did not load: load on demand needs frontends 1.")
        if not settings.importable and (workers or self._others is not None):
            raise ModelLoadFailed(
                f"Model {settings.name} did not load: another process cannot import {settings.implementation_}; "
                "move the class to the top of a module, or set parallel_workers to 0 and frontends to 1."
            )
        if workers and replacements_var.get():
            raise ModelLoadFailed(
                f"Model {settings.name} did not load: a worker process has its own dependencies; "
                "overrides need models in this process, with parallel_workers 0."
            )
        if workers == 0:
            timeout = self._settings.model_load_timeout
            return await Local.load(settings, timeout, self._build_route_handler)
        from .pool import Pool  # Imported lazily: only models in workers need it.

        limit = time_limit(settings, self._settings)
        pool = f"{settings.name} {next(_own_pools)}" if leaves or devices else self._pool(settings)
        group = self._group(Placement(workers, environment, pool, devices))
        if leaves:
            from .resident import ResidentPool

            return await ResidentPool.load(settings, group, limit, self.residency)
        instance, loaded = await group.load(settings)
        return Pool(settings, group, instance, loaded, limit)

    def _group(self, placement: Placement) -> "WorkerGroup":
        """Return the group for a placement. Also drops groups without models."""
        from .group import WorkerGroup

        self._groups = {placement: group for placement, group in self._groups.items() if not group.empty}
        if placement not in self._groups:
            programs = self._programs(placement)
            group = WorkerGroup(programs, self._settings, self._meters, self._others, self._spares)
            group.relieve = self.residency.relieve
            self._groups[placement] = group
        return self._groups[placement]

    def _workers(self, settings: ModelSettings, devices: tuple[str, ...]) -> int:
        """Return the number of workers for a model: by default, at least one per device.

        Raises ModelLoadFailed if the model has devices but no workers.
        """
        workers = settings.parallel_workers
        if workers is None:
            return max(self._settings.parallel_workers, len(devices))
        if devices and workers < 1:
            raise ModelLoadFailed(
                f"Model {settings.name} did not load: devices are those of worker processes, and its parallel_workers "
                f"is {workers}."
            )
        return max(workers, 0)

    def _pool(self, settings: ModelSettings) -> str | None:
        """Return the name of a model's pool. Models with a different number of workers get a separate pool."""
        parameters = settings.parameters
        if parameters is not None and parameters.inference_pool_gid:
            return parameters.inference_pool_gid
        own = settings.parallel_workers not in (None, self._settings.parallel_workers)
        return f"{settings.name} {next(_own_pools)}" if own else None

    def _programs(self, placement: Placement) -> "list[Program]":
        from ...processes.spawning import Program

        variables = _threads(placement.workers)
        if self._settings.metrics_endpoint:
            variables |= self._meters.files.variables()
        python = sys.executable
        if placement.environment is not None:
            python = str(find_python(placement.environment))
            variables["VIRTUAL_ENV"] = str(placement.environment)
            variables["PATH"] = os.pathsep.join(
                (str(placement.environment / "bin"), os.environ.get("PATH", ""))
            )
        devices = placement.devices
        each = [
            {**variables, VARIABLE: devices[i % len(devices)]} if devices else variables
            for i in range(placement.workers)
        ]
        return [Program(self._worker_script, python, own) for own in each]

    async def stop(self, limit: float) -> bool:
        """Stop all remaining workers within `limit` seconds. Returns False if one had to be killed."""
        self.residency.stop()
        ending = [group.end(limit) for group in self._groups.values()]
        if self._spares is not None:
            ending.append(self._spares.stop(min(self._settings.parallel_workers_timeout, limit)))
        try:
            return all(await asyncio.gather(*ending))
        finally:
            self._meters.files.close()


async def _devices(settings: ModelSettings) -> tuple[str, ...]:
    """Return the devices of a model's workers. Empty if it names none, or if `auto` finds none."""
    if settings.devices != "auto":
        return tuple(settings.devices)
    devices = await asyncio.to_thread(visible_devices)
    logger.info("model %s: devices %s", settings.name, ", ".join(devices) or "none found (auto)")
    return devices


def _threads(workers: int) -> dict[str, str]:
    """Return environment variables that limit numerical libraries to the worker's share of the cores."""
    if "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, processors.available() // workers))}
