"""Decides where each model runs: in the server, or in a group of workers."""

import asyncio
import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ... import processors
from ...errors import ModelLoadFailed
from ...repository.environments import environment_of, python_in
from ...settings import ModelSettings, Settings
from ...telemetry.workers import WorkerMeters
from ..execution.base import BuildRouteHandler, Execution
from ..execution.local import Local
from ..stages.live import limit_of

if TYPE_CHECKING:
    from ...processes.spawning import Program
    from .group import WorkerGroup, WorkerSharing

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

    async def load(self, settings: ModelSettings) -> Execution:
        """Load a model in this process or in workers. Raises ModelLoadFailed."""
        if settings.input_validation == "auto" and self._settings.status_profile == "triton":
            settings = settings.model_copy(update={"input_validation": "strict"})
        environment = await environment_of(settings, Path(self._settings.environments_dir))
        workers = self._workers(settings)
        if environment is not None:
            workers = max(workers, 1)
        if not settings.importable and (workers or self._others is not None):
            raise ModelLoadFailed(
                f"Model {settings.name} did not load: another process cannot import {settings.implementation_}; "
                "move the class to the top of a module, or set parallel_workers to 0 and frontends to 1."
            )
        if workers == 0:
            timeout = self._settings.model_load_timeout
            return await Local.load(settings, timeout, self._build_route_handler)
        from .pool import Pool  # late: only workers need it

        placement = Placement(workers, environment, self._pool(settings), tuple(settings.devices))
        group = self._group(placement)
        instance, loaded = await group.load(settings)
        limit = limit_of(settings, self._settings)
        return Pool(settings, group, instance, loaded, limit)

    def _group(self, placement: Placement) -> "WorkerGroup":
        """The group of this placement. Forgets groups without models."""
        from .group import WorkerGroup

        self._groups = {placement: group for placement, group in self._groups.items() if not group.empty}
        if placement not in self._groups:
            shared = self._meters.files.variables() if self._settings.metrics_endpoint else {}
            programs = _programs(placement, self._worker_script, shared)
            self._groups[placement] = WorkerGroup(programs, self._settings, self._meters, self._others)
        return self._groups[placement]

    def _workers(self, settings: ModelSettings) -> int:
        workers = settings.parallel_workers
        return self._settings.parallel_workers if workers is None else max(workers, 0)

    def _pool(self, settings: ModelSettings) -> str | None:
        """The name of a model's pool. A model with its own number of workers, or devices, shares none."""
        parameters = settings.parameters
        if parameters is not None and parameters.inference_pool_gid:
            return parameters.inference_pool_gid
        own = settings.parallel_workers not in (None, self._settings.parallel_workers) or settings.devices
        return f"{settings.name} {next(_own_pools)}" if own else None

    async def stop(self, limit: float) -> bool:
        """End all remaining workers within `limit` seconds; False if one was killed."""
        try:
            return all(await asyncio.gather(*(group.end(limit) for group in self._groups.values())))
        finally:
            self._meters.files.close()


def _programs(placement: Placement, script: str, shared: dict[str, str]) -> "list[Program]":
    from ...processes.spawning import Program

    variables = {**shared, **_threads(placement.workers)}
    python = sys.executable
    if placement.environment is not None:
        python = str(python_in(placement.environment))
        variables["VIRTUAL_ENV"] = str(placement.environment)
        variables["PATH"] = os.pathsep.join((str(placement.environment / "bin"), os.environ.get("PATH", "")))
    devices = placement.devices
    each = [
        {**variables, "CUDA_VISIBLE_DEVICES": devices[i % len(devices)]} if devices else variables
        for i in range(placement.workers)
    ]
    return [Program(script, python, own) for own in each]


def _threads(workers: int) -> dict[str, str]:
    """A share of the cores for the numerical libraries of each worker, which otherwise start a thread per core."""
    if "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, processors.available() // workers))}
