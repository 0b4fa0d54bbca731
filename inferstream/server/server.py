"""The composition root: constructs everything, hands it on, and owns the order of starting and stopping."""

import asyncio
import logging
import socket
import stat
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import processors
from ..compat.finder import install
from ..dataplane.access import Access
from ..dataplane.dataplane import DataPlane
from ..dataplane.registry import Registry
from ..dataplane.workers.placement import Placements
from ..errors import InvalidSettings
from ..imports.folders import share_folders
from ..imports.implementation import resolve_class
from ..repository import FolderRepository, ModelRepository
from ..settings import Settings
from ..settings.sources import SETTINGS_FILE
from ..telemetry.files import MetricFiles
from ..telemetry.metrics import CONTENT_TYPE, Meters
from ..telemetry.models import ModelMetrics
from ..telemetry.workers import WorkerMeters
from .custom import build_route_handler
from .doors import Doors, build_tracing
from .ports import bind, share
from .reload import reload_on_change
from .rest.liveness import Liveness
from .rest.server import HttpServer, metrics_app
from .stopping import FRONT_ENDS, LAST_RESPONSES, PORTS, SPARE, UNLOADING, longest_stop, within

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracer
    from .frontends.leader import FrontEnds
    from .kafka.door import KafkaDoor

logger = logging.getLogger("inferstream.server")

WORKER = str(Path(__file__).with_name("bootstrap.py"))
"""The script that a worker process runs."""


PUBLIC = stat.S_IWOTH | stat.S_ISVTX
"""The mode of folders for everybody's temporary files."""


class Server:
    """A model server. It runs once, on any event loop of any thread; signals are left to whoever starts it."""

    def __init__(self, settings: Settings, repository: ModelRepository | None = None) -> None:
        self.settings = settings
        share_code(settings)
        processors.divide(settings.frontends)
        self.meters = Meters(settings.metrics_rest_server_prefix)
        workers = WorkerMeters(MetricFiles(settings.metrics_dir))
        self.meters.add(workers)
        self.meters.add(ModelMetrics(workers.files))
        self.front_ends = _front_ends(settings, self.meters, workers.files)
        self._liveness = Liveness(settings.model_load_timeout)
        self.placements = Placements(
            settings, workers, build_route_handler, WORKER, self.front_ends, self._liveness.during
        )
        load = self.placements.load
        self.tracing = build_tracing(settings)
        self.registry = Registry(
            settings,
            repository or repository_of(settings),
            load if self.front_ends is None else self.front_ends.sharing(load),
            self.meters,
            self.tracing,
            self.front_ends,
        )
        self.access = Access(settings.host, settings.allow_open_repository)
        self.dataplane = DataPlane(settings, self.registry, self.access)
        self.ports: dict[str, int] = {}
        self._kafka = _kafka(self.dataplane, settings, self.tracing) if settings.kafka_enabled else None
        self._stopping = asyncio.Event()
        self._http: dict[str, HttpServer] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loading: asyncio.Task[None] | None = None
        self.killed = False
        """Whether a process of this server did not end when told to, and was killed."""

    async def run(
        self,
        started: Callable[["Server"], None],
        watch: bool = False,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the ports, load the models, call `started`, and serve until `stop`.

        `stopping` is called when the server begins to stop, for whatever reason.
        Raises InvalidSettings for a port that is taken, and in strict mode whatever a model failed with.
        """
        if self._loop is not None:
            raise RuntimeError("a Server runs once; make another one to serve again")
        self._loop = asyncio.get_running_loop()
        with ExitStack() as taken:
            sockets = self._bind(taken)
            doors = Doors(self.dataplane, self.settings, self.meters, self.tracing, self._liveness)
            self.ports["gRPC"] = doors.grpc.bind(self.settings.host, self.settings.grpc_port)
            try:
                await self._serve(doors, sockets, started, watch)
            finally:
                stopping()
                await self._stop(doors)

    async def _serve(
        self,
        doors: Doors,
        sockets: dict[str, socket.socket],
        started: Callable[["Server"], None],
        watch: bool,
    ) -> None:
        self._http["REST"] = doors.build_rest()
        if "metrics" in sockets:
            self._start_metrics(sockets["metrics"])
        if self.front_ends is not None:
            self.front_ends.start(self.registry, self.ports)
        await doors.start(sockets["REST"])
        if not await self._load():
            return
        if self._kafka is not None:
            self._kafka.start()
        watching: asyncio.Task[None] | None = None
        if watch:
            root = Path(self.settings.model_repository_root)
            watching = asyncio.create_task(reload_on_change(self.registry, root))
            await asyncio.sleep(0)  # its first turn begins to watch, before the start is announced
        try:
            started(self)
            await self._stopping.wait()
        finally:
            if watching is not None:
                watching.cancel()

    def stop(self) -> None:
        """Finish what is in progress and let `run` return; may be called in any thread and signal handler."""
        if self._loop is None:
            self._stopping.set()
            return
        with suppress(RuntimeError):  # the loop has closed, so `run` has returned
            self._loop.call_soon_threadsafe(self._stopping.set)

    @property
    def longest_stop(self) -> float:
        """Seconds after which a stop is not going to end: model code keeps the event loop to itself."""
        return longest_stop(self.settings) + SPARE

    async def _load(self) -> bool:
        """Load every model; False when `stop` came first."""
        loading = self._loading = asyncio.create_task(self._come_up())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not loading.done():
                loading.cancel()
        if not loading.done():
            return False
        await loading
        return True

    async def _come_up(self) -> None:
        await self.registry.start()
        if self.front_ends is not None:
            await self.front_ends.up()

    def _bind(self, taken: ExitStack) -> dict[str, socket.socket]:
        settings = self.settings
        wanted = {"REST": settings.http_port}
        if settings.metrics_endpoint and (
            settings.metrics_port == 0 or settings.metrics_port != settings.http_port
        ):
            wanted["metrics"] = settings.metrics_port
        sockets = {}
        for name, port in wanted.items():
            sockets[name] = taken.enter_context(bind(settings.host, port, name))
            if name == "REST" and settings.frontends > 1:
                share(sockets[name])
            self.ports[name] = sockets[name].getsockname()[1]
        return sockets

    def _start_metrics(self, sock: socket.socket) -> None:
        settings = self.settings
        assert settings.metrics_endpoint is not None
        app = metrics_app(settings.metrics_endpoint, self.meters, CONTENT_TYPE)
        source_and_options = ("_custom_metrics_server_settings", settings.custom_metrics_server_settings)
        self._http["metrics"] = HttpServer(
            app, *source_and_options, settings.model_repository_root, guarded=False
        )
        self._http["metrics"].start(sock)

    def scheme(self, port: str) -> str:
        """What a port's address begins with."""
        return self._http[port].scheme if port in self._http else ""

    async def _stop(self, doors: Doors) -> None:
        """Not ready; then refuse; let calls in progress finish; end the rest; close; unload. All within limits."""
        settings, others = self.settings, self.front_ends
        loop = asyncio.get_running_loop()
        over = loop.time() + longest_stop(settings)
        self.registry.leaving = True
        if self._kafka is not None:
            self._kafka.pause()
        if self.registry.started:
            logger.info("stopping: no longer ready")
            await asyncio.sleep(settings.shutdown_delay)
        grace = settings.shutdown_grace
        draining = [] if others is None else [others.drain(grace)]
        await within(grace + SPARE, "ending calls", self.registry.stop(grace), *draining)
        closing: list[Coroutine[Any, Any, object]] = [doors.stop()]
        closing += [server.stop() for name, server in self._http.items() if name != "REST"]
        if self._kafka is not None:
            closing.append(self._kafka.stop(LAST_RESPONSES))
        if others is not None:
            closing.append(self._end(others.stop(FRONT_ENDS - SPARE)))
        await within(PORTS if others is None else FRONT_ENDS, "closing the ports", *closing)
        left = over - loop.time()
        ending = [self._end(self.placements.stop(left)), self.registry.unload_all(min(UNLOADING, left))]
        if self._loading is not None:
            ending.append(_ended(self._loading))
        if self.tracing is not None:
            ending.append(self.tracing.stop())
        await within(left, "unloading", *ending)
        logger.info("stopped")

    async def _end(self, ending: Coroutine[Any, Any, bool]) -> None:
        """End processes of this server, and remember whether any had to be killed."""
        if not await ending:
            self.killed = True


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


def _front_ends(settings: Settings, meters: Meters, files: MetricFiles) -> "FrontEnds | None":
    """The other front ends, where the settings want any. Raises InvalidSettings where there can be none."""
    if settings.frontends == 1:
        return None
    if sys.platform != "linux":
        raise InvalidSettings(f"frontends is {settings.frontends}, and more than one needs Linux")
    from .frontends.leader import FrontEnds  # late: most servers have none

    return FrontEnds(settings, meters, files)


def _kafka(dataplane: DataPlane, settings: Settings, tracing: "Tracer | None") -> "KafkaDoor":
    """The Kafka endpoint. Raises InvalidSettings without the extra."""
    try:
        from .kafka.door import KafkaDoor
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f'kafka_enabled needs `pip install "inferstream[kafka]"`: {missing.name} is not installed'
        ) from None
    return KafkaDoor(dataplane, settings, tracing)


def share_code(settings: Settings) -> None:
    """Let models import from the served folder and from the working folder, wherever that moves later.

    A working folder such as `/tmp`, where every user may leave a file, is left out.
    """
    share_folders([settings.model_repository_root])
    with suppress(OSError):  # it may have been deleted
        working = Path.cwd()
        if working.stat().st_mode & PUBLIC == PUBLIC:
            logger.info("models cannot import from %s, where everybody may write", working)
        else:
            share_folders([working])


def repository_of(settings: Settings) -> ModelRepository:
    """The repository that the settings name. Raises InvalidSettings."""
    implementation, root = settings.model_repository_implementation, settings.model_repository_root
    if implementation is None:
        return FolderRepository(root)
    try:
        install()
        found: Any = resolve_class(implementation, str(Path(root, SETTINGS_FILE)))
        if not issubclass(found, ModelRepository):
            raise InvalidSettings("it is not a ModelRepository")
        repository: ModelRepository = found(root=root, **settings.model_repository_implementation_args)
    except Exception as error:  # code of the user's own, which may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidSettings(f'model_repository_implementation "{implementation}": {reason}') from error
    return repository
