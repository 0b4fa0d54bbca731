"""The model server: an application with ports, front-end processes, other transports and reloads."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import processors
from ..errors import InvalidSettings
from ..extensions.entries import DIALECTS
from ..extensions.loading import load_group
from ..repository import ModelRepository
from ..settings import Settings
from ..telemetry.files import MetricFiles
from ..telemetry.metrics import Meters
from .backend import Backend
from .door import Door
from .doors import Doors
from .grpc.options import check_engine
from .ports import SERVED_PORTS, bind, share
from .reload import reload_on_change
from .rest.server import HttpServer, build_metrics_service
from .serve_target import resolve
from .stopping import FRONT_ENDS, LAST_RESPONSES, PORTS, SPARE, longest_stop, run_within

if TYPE_CHECKING:
    from .application import Application
    from .frontends.supervisor import Supervisor

logger = logging.getLogger("inferstream.server")


class Server:
    """A model server. It runs once, on any event loop in any thread, and installs no signal handlers."""

    def __init__(self, settings: Settings, repository: ModelRepository | None = None) -> None:
        check_engine(settings)
        self.settings = settings
        processors.divide(settings.frontends)
        settings, models = resolve(settings, {}, repository)
        self.backend = Backend(settings, models, supervise=_build_supervisor)
        self.front_ends = self.backend.front_ends
        self.ports: dict[str, int] = {}
        self._beside = _build_plugin_doors(self.backend)
        self._stopping = asyncio.Event()
        self._http: dict[str, HttpServer] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loading: asyncio.Task[None] | None = None

    @cached_property
    def application(self) -> "Application":
        """The models, for in-process calls."""
        from .application import wrap_backend  # Imported lazily: few servers have in-process calls.

        return wrap_backend(self.backend)

    @property
    def killed(self) -> bool:
        """Whether a process of this server was killed because it did not exit in time."""
        return self.backend.killed

    async def run(
        self,
        started: Callable[["Server"], None],
        watch: bool = False,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Bind the ports, load the models, call `started`, and serve until `stop` is called.

        The server calls `stopping` when it starts to stop. Raises InvalidSettings if a port is in use. In
        strict mode, raises the error of the first model that fails to load.
        """
        if self._loop is not None:
            raise RuntimeError("a Server runs once; make another one to serve again")
        self._loop = asyncio.get_running_loop()
        with ExitStack() as taken:
            sockets = self._bind(taken)
            backend = self.backend
            doors = Doors(backend.dataplane, self.settings, backend.meters, backend.edges)
            self.ports["gRPC"] = self._bind_grpc(doors)
            SERVED_PORTS.update(self.ports.values())
            taken.callback(SERVED_PORTS.difference_update, [*self.ports.values()])
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
        self._http["REST"] = doors.rest
        if "metrics" in sockets:
            await self._start_metrics(sockets["metrics"])
        if self.front_ends is not None:
            self.front_ends.start(self.backend.registry, self.backend.access, self.ports)
        self.backend.start_timers()
        self.backend.registry.listing = self.settings.load_models_at_startup
        await doors.start(sockets["REST"])
        if not await self._load():
            return
        for door in self._beside:
            door.start()
        watching: asyncio.Task[None] | None = None
        if watch:
            root = Path(self.settings.model_repository_root)
            watching = asyncio.create_task(reload_on_change(self.backend.registry, root))
            await asyncio.sleep(0)  # the watch starts in its first step, before `started` is called
        try:
            started(self)
            await self._stopping.wait()
        finally:
            if watching is not None:
                watching.cancel()

    def stop(self) -> None:
        """Let calls in progress finish, then let `run` return.

        Safe to call from any thread or signal handler.
        """
        if self._loop is None:
            self._stopping.set()
            return
        with suppress(RuntimeError):  # the loop is closed, so `run` has returned
            self._loop.call_soon_threadsafe(self._stopping.set)

    @property
    def longest_stop(self) -> float:
        """Seconds after which a stop counts as hanging, usually because model code blocks the event loop."""
        return longest_stop(self.settings) + SPARE

    async def _load(self) -> bool:
        """Load every model. Returns False if `stop` was called first."""
        loading = self._loading = asyncio.create_task(self._start_models())
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

    async def _start_models(self) -> None:
        await self.backend.registry.start()
        if self.front_ends is not None:
            await self.front_ends.wait_until_serving()

    def _bind(self, taken: ExitStack) -> dict[str, socket.socket]:
        settings = self.settings
        wanted = {"REST": settings.http_port}
        if settings.metrics_endpoint and (
            settings.metrics_port == 0 or settings.metrics_port != settings.http_port
        ):
            wanted["metrics"] = settings.metrics_port
        if settings.metrics_port and settings.metrics_port == settings.grpc_port != settings.http_port:
            raise InvalidSettings(
                f"the ports of metrics and gRPC are both {settings.grpc_port}; give each its own"
            )
        sockets = {}
        for name, port in wanted.items():
            sockets[name] = taken.enter_context(bind(settings.host, port, name))
            if name == "REST" and settings.frontends > 1:
                share(sockets[name])
            self.ports[name] = sockets[name].getsockname()[1]
        return sockets

    def _bind_grpc(self, doors: Doors) -> int:
        settings = self.settings
        if settings.one_port:
            return self.ports["REST"]
        assert settings.grpc_port is not None
        return doors.grpc.bind(settings.host, settings.grpc_port)

    async def _start_metrics(self, sock: socket.socket) -> None:
        settings, backend = self.settings, self.backend
        service = build_metrics_service(backend.meters, settings, backend.dataplane)
        self._http["metrics"] = HttpServer(service, settings, "metrics")
        await self._http["metrics"].start(sock)

    def scheme(self, port: str) -> str:
        return f"{self._http[port].scheme}://" if port in self._http else ""

    async def _stop(self, doors: Doors) -> None:
        """Report not ready, drain, close the ports and unload the models, each step within its time limit."""
        settings, backend, others = self.settings, self.backend, self.front_ends
        loop = asyncio.get_running_loop()
        over = loop.time() + longest_stop(settings)
        backend.registry.leaving = True
        for server in self._http.values():
            server.leave()
        for door in self._beside:
            door.pause()
        if backend.started:
            logger.info("stopping: no longer ready")
            if settings.shutdown_delay:  # lets load balancers see that the server is not ready
                await asyncio.sleep(settings.shutdown_delay)
        doors.drain()
        await backend.drain(*([] if others is None else [others.drain(settings.shutdown_grace)]))
        closing: list[Coroutine[Any, Any, object]] = [doors.stop()]
        closing += [server.stop() for name, server in self._http.items() if name != "REST"]
        closing += [door.stop(LAST_RESPONSES) for door in self._beside]
        if others is not None:
            closing.append(backend.end(others.stop(FRONT_ENDS - SPARE)))
        await run_within(PORTS if others is None else FRONT_ENDS, "closing the ports", *closing)
        await backend.close(
            over - loop.time(), *([] if self._loading is None else [_wait_for(self._loading)])
        )
        logger.info("stopped")


async def _wait_for(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


def _build_supervisor(settings: Settings, meters: Meters, files: MetricFiles) -> "Supervisor | None":
    """Return the supervisor of the other front ends, or None.

    Raises InvalidSettings if the platform supports only one.
    """
    if settings.frontends == 1:
        return None
    if sys.platform != "linux":
        raise InvalidSettings(f"frontends is {settings.frontends}, and more than one needs Linux")
    from .frontends.supervisor import Supervisor  # Imported lazily: most servers have one front end.

    return Supervisor(settings, meters, files)


def _build_plugin_doors(backend: Backend) -> list[Door]:
    """Create the plug-in doors that the settings enable. Raises InvalidSettings."""
    kinds = [kind for _, kind in load_group(DIALECTS, backend.settings.strict)]
    given = backend.dataplane, backend.settings
    made = [kind.of(*given) for kind in kinds if isinstance(kind, type) and issubclass(kind, Door)]
    return [door for door in made if door is not None]
