"""The application: models with their dataplane, without a port, for a server, another application or a test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cached_property, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from ..clients.client import AsyncClient, InProcessClient
from ..codecs.registry import load_plugins
from ..compat.finder import load_tables
from ..dataplane.access import build_authority
from ..dataplane.dataplane import DataPlane
from ..dataplane.execution.base import Execution
from ..dataplane.peers import Peers
from ..dataplane.registry import Registry
from ..dataplane.workers.placement import Placements
from ..errors import InvalidSettings
from ..extensions import check_names
from ..functions.injection import Overrides, Replacements, replacing
from ..repository import ModelRepository
from ..settings import ModelSettings, Settings
from ..telemetry.files import MetricFiles, ModelMetrics
from ..telemetry.gpu import GpuMemory
from ..telemetry.meter_set import Buckets
from ..telemetry.metrics import Meters
from ..telemetry.workers import WorkerMeters
from .custom import build_route_handler
from .edge_order import build_edges
from .in_process import InProcessCalls, InProcessTransport
from .served import Served, resolve
from .stopping import AFTERWARDS, SPARE, UNLOADING, within

if TYPE_CHECKING:
    from .frontends.supervisor import Supervisor
    from .grpc.rpc import Rpcs
    from .rest.asgi import AsgiApp

P = ParamSpec("P")
T = TypeVar("T")

WORKER = str(Path(__file__).with_name("bootstrap.py"))
"""The script that a worker process runs."""

WITHOUT_PORTS = {"host": "0.0.0.0", "frontends": 1}
"""Settings of an application that another server gives its ports: those may be open to everybody."""


def _delegated(
    method: Callable[Concatenate[AsyncClient, P], T],
) -> Callable[Concatenate["Application", P], T]:
    """The method of `Application` that calls this one of its client."""

    @wraps(method)
    def call(self: "Application", /, *arguments: P.args, **named: P.kwargs) -> T:
        return method(self._client, *arguments, **named)

    return call


class Application:
    """Serves models in this process, and in workers if their settings name any; it opens no port.

    `served` is a folder of models, `Settings`, a class of models, a model, `ModelSettings`, several of these,
    or a mapping from names to classes and models. Keyword arguments are settings of the server; those of
    ports, further front ends and Kafka have no effect. `overrides` are functions by the dependency that they replace.

    `async with application` loads the models. At the end it ends their calls within `shutdown_grace` seconds and
    unloads them. An application runs once, on one event loop. Raises InvalidSettings.
    """

    def __init__(
        self,
        served: Served = ".",
        *,
        repository: ModelRepository | None = None,
        overrides: Overrides | None = None,
        supervise: "Callable[[Settings, Meters, MetricFiles], Supervisor | None] | None" = None,
        **settings: Any,
    ) -> None:
        """A server with ports of its own gives `supervise`, which makes the supervisor of its front ends."""
        self._replacements = Replacements(overrides or {})
        with replacing(self._replacements):
            own, repository = resolve(served, settings, repository)
        embedded = supervise is None
        if supervise is None:
            own = own.model_copy(update=WITHOUT_PORTS)
        check_names(own.strict)
        load_plugins(own.strict)
        load_tables(own.strict)
        self.settings = own
        self.meters = Meters(own.metrics_rest_server_prefix, Buckets(**own.metrics_buckets))
        self.meters.inflight.bound(own.max_inflight_bytes, own.frontends, own.max_body_bytes)
        workers = WorkerMeters(MetricFiles(own.metrics_dir))
        self.meters.add(workers)
        self.meters.add(ModelMetrics(workers.files))
        self.meters.add(GpuMemory())  # not in further front ends, whose numbers are added to these
        self.front_ends = None if supervise is None else supervise(own, self.meters, workers.files)
        self.access = build_authority(own, embedded=embedded, count=own.frontends)
        self.placements = Placements(own, self.access, workers, build_route_handler, WORKER, self.front_ends)
        peers = Peers() if self.front_ends is None else self.front_ends.peers
        self._polling: asyncio.Task[None] | None = None
        self.registry = Registry(
            own,
            self.access,
            repository,
            self._load if self.front_ends is None else self.front_ends.sharing(self._load),
            self.meters,
            peers,
            self.front_ends,
            self.placements.residency.forget,
        )
        self.dataplane = DataPlane(own, self.registry, self.access, peers)
        self.edges = build_edges(self.registry.parts)
        self.killed = False
        """Whether a process of this application had to be killed because it did not end in time."""
        self._begun = False

    async def _load(self, settings: ModelSettings) -> Execution:
        with replacing(self._replacements):
            execution = await self.placements.load(settings)
        if execution.routes:
            from .rest.mounting import warn_of_hidden  # late: few models have routes

            warn_of_hidden(settings.name, execution.routes, self.dataplane, self.settings, self.meters)
        return execution

    @property
    def started(self) -> bool:
        """Whether each model has loaded or failed."""
        return self.registry.started

    async def start(self) -> None:
        """Load the models. In strict mode raises the first model's failure."""
        if self._begun:
            raise InvalidSettings("an Application runs once; make another one to serve again")
        self._begun = True
        self.start_timers()
        try:
            with replacing(self._replacements):
                await self.registry.start()
            if unknown := self._replacements.unknown():
                raise InvalidSettings(f"overrides: no function depends on {', '.join(unknown)}")
        except BaseException:  # a cancelled start too
            await self.stop()
            raise

    def start_timers(self) -> None:
        """Read changed keys, start the edges, look for new versions and keep spare workers, as the settings say."""
        self.access.start()
        self.placements.start()
        for edge in self.edges:
            edge.start()
        if self.settings.repository_poll is not None:
            from .reload import reload_renewed  # late: few servers look elsewhere

            self._polling = asyncio.create_task(
                reload_renewed(self.registry, self.settings.repository_poll), name="repository-poll"
            )

    async def stop(self) -> None:
        """Refuse new calls, let calls in progress finish, end the rest and unload, within the limits."""
        loop = asyncio.get_running_loop()
        over = loop.time() + self.settings.shutdown_grace + AFTERWARDS
        await self.drain()
        await self.close(over - loop.time())

    async def drain(self, *others: Coroutine[Any, Any, object]) -> None:
        """Refuse new calls, end calls in progress after `shutdown_grace` seconds, and run `others` meanwhile."""
        self.registry.leaving = self.registry.draining = True
        if self._polling is not None:
            self._polling.cancel()
        grace = self.settings.shutdown_grace
        await within(grace + SPARE, "ending calls", self.registry.stop(grace), *others)

    async def close(self, seconds: float, *others: Coroutine[Any, Any, object]) -> None:
        """Unload the models and end the workers within `seconds`, and run `others` meanwhile."""
        ending = [self.end(self.placements.stop(seconds)), self.registry.unload_all(min(UNLOADING, seconds))]
        ending += [self.access.close(), *(edge.stop() for edge in self.edges)]
        await within(seconds, "unloading", *ending, *others)

    async def end(self, processes: Coroutine[Any, Any, bool]) -> None:
        """End processes, and record whether one had to be killed."""
        if not await processes:
            self.killed = True

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    predict = _delegated(AsyncClient.predict)
    """The result of a model, in this process: the arguments, values and errors of `AsyncClient.predict`.

    Without `timeout`, the settings limit the time. `__cause__` of a CallFailed is the error itself.
    """
    stream = _delegated(AsyncClient.stream)
    """Each item of a stream, when the model makes it. Closing the stream ends the call."""

    @cached_property
    def calls(self) -> InProcessCalls:
        """Calls of the models with requests, which raise the errors of the models as they are."""
        return InProcessCalls(self.dataplane, lambda: self.started)

    @cached_property
    def _client(self) -> AsyncClient:
        transport = InProcessTransport(self.calls, self.dataplane, self.settings.status_profile)
        return InProcessClient(transport)

    @cached_property
    def asgi(self) -> "AsgiApp":
        """A complete ASGI application with lifespan, HTTP and WebSocket, for any server or for a mount."""
        from .grpc.web.door import build_web  # late: not every application serves HTTP
        from .rest.app import RestApp
        from .rest.asgi import AsgiApp
        from .rest.origins import Origins

        settings = self.settings
        web = build_web(self.rpcs, settings, Origins(settings).check) if settings.grpc_web else None
        return AsgiApp(RestApp(self.dataplane, settings, self.meters, self.edges, web), self)

    @asynccontextmanager
    async def lifespan(self, host: Any) -> AsyncIterator[None]:
        """The lifespan of the Starlette or FastAPI application that `asgi` is mounted in.

        Raises InvalidSettings if the mount and another route of `host` hide each other.
        """
        from .rest.mounting import check_mounts

        async with self:
            check_mounts(host, self.asgi, self.dataplane, self.settings, self.meters)
            yield

    def grpc_services(self) -> tuple[Any, ...]:
        """The services, for `add_generic_rpc_handlers` of a `grpc.aio` server."""
        from .grpc.grpcio.handlers import RpcHandlers  # late: it imports the library

        return (RpcHandlers(self.rpcs),)

    @cached_property
    def rpcs(self) -> "Rpcs":
        """The RPCs, for any engine of gRPC."""
        from .grpc.services import build_services  # late: not every application serves gRPC

        return build_services(self.dataplane, self.settings, self.meters, self.edges, lambda: self.started)
