"""The composition root: constructs everything, hands it on, and owns the order of starting and stopping."""

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..dataplane.access import Access
from ..dataplane.dataplane import DataPlane
from ..dataplane.registry import Registry
from ..dataplane.workers.placement import Placements
from ..errors import InvalidSettings
from ..repository import FolderRepository, ModelRepository
from ..repository.mlserver_imports import install
from ..settings import Settings
from ..settings.implementation import resolve_class
from ..settings.sources import SETTINGS_FILE
from ..telemetry.files import MetricFiles
from ..telemetry.metrics import CONTENT_TYPE, Meters
from ..telemetry.models import ModelMetrics
from ..telemetry.workers import WorkerMeters
from .custom import build_answering
from .grpc.app import GrpcServer
from .ports import bind
from .reload import reload_on_change
from .rest.app import RestApp
from .rest.server import HttpServer, metrics_app

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing
    from .kafka.door import KafkaDoor

logger = logging.getLogger("inferstream.server")

UNLOAD_LIMIT = 2.0
"""Seconds that all models together may take to unload at shutdown."""

WORKER = str(Path(__file__).with_name("bootstrap.py"))
"""The script that a worker process runs."""

LAST_ANSWERS = 2.0
"""Seconds that answers already made may take to reach Kafka."""

LAST_RESORT = 5.0
"""Seconds after the grace period when the process ends whatever still runs in it."""


class Server:
    """A model server; `run` returns when a signal has ended it."""

    def __init__(self, settings: Settings, repository: ModelRepository | None = None) -> None:
        self.settings = settings
        self.meters = Meters(settings.metrics_rest_server_prefix)
        workers = WorkerMeters(MetricFiles(settings.metrics_dir))
        self.meters.add(workers)
        self.meters.add(ModelMetrics(workers.files))
        self.placements = Placements(settings, workers, build_answering, WORKER)
        self.tracing = _tracing(settings)
        self.registry = Registry(
            settings,
            repository or repository_of(settings),
            self.placements.load,
            self.meters,
            self.tracing,
        )
        self.access = Access(settings.host, settings.allow_open_repository)
        self.dataplane = DataPlane(settings, self.registry, self.access)
        self.ports: dict[str, int] = {}
        self._kafka = _kafka(self.dataplane, settings, self.tracing) if settings.kafka_enabled else None
        self._stopping = asyncio.Event()
        self._http: dict[str, HttpServer] = {}
        self._watchdog: threading.Timer | None = None

    async def run(self, started: Callable[["Server"], None], watch: bool = False) -> None:
        """Take the ports, load the models, call `started`, and serve until SIGTERM or SIGINT.

        Raises InvalidSettings for a port that is taken, and in strict mode whatever a model failed with.
        """
        self._listen_to_signals()
        sockets = self._bind()
        grpc = self._grpc()
        self.ports["gRPC"] = grpc.bind(self.settings.host, self.settings.grpc_port)
        watching: asyncio.Task[None] | None = None
        try:
            self._start_http(sockets)
            await grpc.start()
            if await self._load():
                if self._kafka is not None:
                    self._kafka.start()
                started(self)
                if watch:
                    root = Path(self.settings.model_repository_root)
                    watching = asyncio.create_task(reload_on_change(self.registry, root))
                await self._stopping.wait()
        finally:
            if watching is not None:
                watching.cancel()
            await self._stop(grpc)

    def stop(self) -> None:
        """Finish what is in progress and let `run` return, as a signal does."""
        self._stopping.set()

    async def _load(self) -> bool:
        """Load every model; False when a signal came first."""
        loading = asyncio.create_task(self.registry.start())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not loading.done():
            loading.cancel()
            return False
        await loading
        # What is loaded stays: the garbage collector need not look at it again with every request's leavings.
        gc.collect()
        gc.freeze()
        return True

    def _bind(self) -> dict[str, socket.socket]:
        settings = self.settings
        wanted = {"REST": settings.http_port}
        if settings.metrics_endpoint and (
            settings.metrics_port == 0 or settings.metrics_port != settings.http_port
        ):
            wanted["metrics"] = settings.metrics_port
        sockets = {}
        for name, port in wanted.items():
            sockets[name] = bind(settings.host, port, name)
            self.ports[name] = sockets[name].getsockname()[1]
        return sockets

    def _start_http(self, sockets: dict[str, socket.socket]) -> None:
        settings = self.settings
        apps: dict[str, Any] = {"REST": self._rest()}
        if "metrics" in sockets:
            assert settings.metrics_endpoint is not None
            apps["metrics"] = metrics_app(settings.metrics_endpoint, self.meters, CONTENT_TYPE)
        options = {
            "REST": ("_custom_rest_server_settings", settings.custom_rest_server_settings),
            "metrics": ("_custom_metrics_server_settings", settings.custom_metrics_server_settings),
        }
        folder = settings.model_repository_root
        for name, app in apps.items():
            self._http[name] = HttpServer(app, *options[name], folder, guarded=name == "REST")
        for name, server in self._http.items():
            server.start(sockets[name])
        self._http["REST"].watch(settings.header_timeout, settings.body_timeout)

    def _rest(self) -> RestApp:
        parts = (self.dataplane, self.settings, self.meters)
        if self.tracing is None:
            return RestApp(*parts)
        from .rest.tracing import TracedRestApp  # late: it imports OpenTelemetry

        return TracedRestApp(self.tracing, *parts)

    def _grpc(self) -> GrpcServer:
        parts = (self.dataplane, self.settings, self.meters)
        if self.tracing is None:
            return GrpcServer(*parts)
        from .grpc.tracing import RpcTracing  # late, as above

        return GrpcServer(*parts, RpcTracing(self.tracing))

    def scheme(self, port: str) -> str:
        """What a port's address begins with."""
        return self._http[port].scheme if port in self._http else ""

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def signalled(*_: object) -> None:
            """Runs between two bytecodes, so also when model code is keeping the event loop to itself."""
            if self._watchdog is not None:
                os._exit(130)
            self._watch_the_end()
            loop.call_soon_threadsafe(self._stopping.set)

        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, signalled)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _watch_the_end(self) -> None:
        """Make sure that the process ends, from a thread: the event loop may never run again."""
        limit = self.settings.shutdown_delay + self.settings.shutdown_grace + LAST_RESORT
        self._watchdog = threading.Timer(limit, os._exit, args=(1,))
        self._watchdog.daemon = True
        self._watchdog.start()

    async def _stop(self, grpc: GrpcServer) -> None:
        """Not ready; then refuse; let calls in progress finish; end the rest; close; unload."""
        settings = self.settings
        if self._watchdog is None:
            self._watch_the_end()
        self.registry.leaving = True
        if self._kafka is not None:
            self._kafka.pause()
        if self.registry.started:
            logger.info("stopping: no longer ready")
            await asyncio.sleep(settings.shutdown_delay)
        await self.registry.stop(settings.shutdown_grace)
        if self._kafka is not None:
            await self._kafka.stop(LAST_ANSWERS)
        await asyncio.gather(grpc.stop(), *(server.stop() for server in self._http.values()))
        await self.registry.unload_all(UNLOAD_LIMIT)
        await self.placements.stop()
        if self.tracing is not None:
            await self.tracing.stop()
        logger.info("stopped")


def _tracing(settings: Settings) -> "Tracing | None":
    """What makes spans, where the settings name a collector. Raises InvalidSettings without the extra."""
    if settings.tracing is None:
        return None
    try:
        from ..telemetry.tracing import Tracing
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f'tracing_server needs `pip install "inferstream[tracing]"`: {missing.name} is not installed'
        ) from None
    return Tracing(*settings.tracing)


def _kafka(dataplane: DataPlane, settings: Settings, tracing: "Tracing | None") -> "KafkaDoor":
    """The Kafka endpoint. Raises InvalidSettings without the extra."""
    try:
        from .kafka.door import KafkaDoor
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f'kafka_enabled needs `pip install "inferstream[kafka]"`: {missing.name} is not installed'
        ) from None
    return KafkaDoor(dataplane, settings, tracing)


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
