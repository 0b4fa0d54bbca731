"""The part of a server behind its ports: models, dataplane, workers, edges and metrics."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codecs.registry import load_plugins
from ..compat.finder import load_tables
from ..dataplane.access import build_authority
from ..dataplane.dataplane import DataPlane
from ..dataplane.execution.base import Execution
from ..dataplane.peers import Peers
from ..dataplane.registry import Registry
from ..dataplane.workers.placement import Placements
from ..errors import InvalidSettings
from ..extensions.loading import check_names
from ..functions.injection import Replacements, replacing
from ..repository import ModelRepository
from ..settings import ModelSettings, Settings
from ..telemetry.files import MetricFiles, ModelMetrics
from ..telemetry.gpu import GpuMemory
from ..telemetry.meter_set import Buckets
from ..telemetry.metrics import Meters
from ..telemetry.workers import WorkerMeters
from .custom import build_route_handler
from .edge_order import build_edges
from .stopping import AFTERWARDS, SPARE, UNLOADING, run_within

if TYPE_CHECKING:
    from .frontends.supervisor import Supervisor
    from .grpc.rpc import Rpcs

WORKER = str(Path(__file__).with_name("bootstrap.py"))
"""The script that worker processes run."""


class Backend:
    """Loads the models, serves them to the transports and unloads them. It runs once, on one event loop.

    A server with its own ports passes `supervise`, which creates the supervisor of its front-end processes.
    Without it, the backend is embedded: requests arrive at ports that belong to another program.

    Raises InvalidSettings.
    """

    def __init__(
        self,
        settings: Settings,
        repository: ModelRepository,
        replacements: Replacements | None = None,
        supervise: "Callable[[Settings, Meters, MetricFiles], Supervisor | None] | None" = None,
    ) -> None:
        check_names(settings.strict)
        load_plugins(settings.strict)
        load_tables(settings.strict)
        self.settings = settings
        self._replacements = replacements or Replacements({})
        self.meters = Meters(settings.metrics_rest_server_prefix, Buckets(**settings.metrics_buckets))
        self.meters.inflight.set_limit(
            settings.max_inflight_bytes, settings.frontends, settings.max_body_bytes
        )
        workers = WorkerMeters(MetricFiles(settings.metrics_dir))
        self.meters.add(workers)
        self.meters.add(ModelMetrics(workers.files))
        self.meters.add(GpuMemory())  # Only in this process: the metrics of all front ends are summed.
        self.front_ends = None if supervise is None else supervise(settings, self.meters, workers.files)
        self.access = build_authority(settings, embedded=supervise is None, count=settings.frontends)
        self.placements = Placements(
            settings, self.access, workers, build_route_handler, WORKER, self.front_ends
        )
        peers = Peers() if self.front_ends is None else self.front_ends.peers
        self._polling: asyncio.Task[None] | None = None
        self.registry = Registry(
            settings,
            self.access,
            repository,
            self._load if self.front_ends is None else self.front_ends.limit_to_share(self._load),
            self.meters,
            peers,
            self.front_ends,
            self.placements.residency.forget,
        )
        self.dataplane = DataPlane(settings, self.registry, self.access, peers)
        self.edges = build_edges(self.registry.parts)
        self.killed = False
        """Whether a process of this backend was killed because it did not exit in time."""
        self._begun = False

    async def _load(self, settings: ModelSettings) -> Execution:
        with replacing(self._replacements):
            execution = await self.placements.load(settings)
        if execution.routes:
            from .rest.mounting import warn_of_hidden  # Imported lazily: few models have routes.

            warn_of_hidden(settings.name, execution.routes, self.dataplane, self.settings, self.meters)
        return execution

    @property
    def started(self) -> bool:
        """Whether every model has either loaded or failed."""
        return self.registry.started

    async def start(self) -> None:
        """Load the models. In strict mode, raises the error of the first model that fails to load."""
        if self._begun:
            raise InvalidSettings("an Application runs once; make another one to serve again")
        self._begun = True
        self.start_timers()
        try:
            with replacing(self._replacements):
                await self.registry.start()
            if unknown := self._replacements.find_extras():
                raise InvalidSettings(f"overrides: no function depends on {', '.join(unknown)}")
        except BaseException:  # Includes a cancelled start.
            await self.stop()
            raise

    def start_timers(self) -> None:
        """Start the background tasks: key reloads, spare workers, edges and the repository poll."""
        self.access.start()
        self.placements.start()
        for edge in self.edges:
            edge.start()
        if self.settings.repository_poll is not None:
            from .reload import reload_remote_sources  # Imported lazily: few servers poll a repository.

            self._polling = asyncio.create_task(
                reload_remote_sources(self.registry, self.settings.repository_poll), name="repository-poll"
            )

    async def stop(self) -> None:
        """Reject new calls, let calls in progress finish, cancel the rest and unload the models.

        Each step has a time limit (`stopping.py`).
        """
        loop = asyncio.get_running_loop()
        over = loop.time() + self.settings.shutdown_grace + AFTERWARDS
        await self.drain()
        await self.close(over - loop.time())

    async def drain(self, *others: Coroutine[Any, Any, object]) -> None:
        """Reject new calls and cancel calls in progress after `shutdown_grace` seconds.

        Runs `others` concurrently.
        """
        self.registry.leaving = self.registry.draining = True
        if self._polling is not None:
            self._polling.cancel()
        grace = self.settings.shutdown_grace
        await run_within(grace + SPARE, "ending calls", self.registry.stop(grace), *others)

    async def close(self, seconds: float, *others: Coroutine[Any, Any, object]) -> None:
        """Unload the models and stop the workers within `seconds`, with `others` running concurrently."""
        ending = [self.end(self.placements.stop(seconds)), self.registry.unload_all(min(UNLOADING, seconds))]
        ending += [self.access.close(), *(edge.stop() for edge in self.edges)]
        await run_within(seconds, "unloading", *ending, *others)

    async def end(self, processes: Coroutine[Any, Any, bool]) -> None:
        """Await `processes`, which stops processes, and record whether one had to be killed."""
        if not await processes:
            self.killed = True

    @cached_property
    def rpcs(self) -> "Rpcs":
        """The RPCs, for either gRPC engine."""
        from .grpc.services import build_services  # Imported lazily: not every application serves gRPC.

        return build_services(self.dataplane, self.settings, self.meters, self.edges, lambda: self.started)
