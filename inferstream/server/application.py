"""The application: models without a port, for a program that embeds them, another application or a test."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from ..clients.client import AsyncClient, InProcessClient
from ..dataplane.models import ServerModels
from ..functions.injection import Overrides, Replacements, replacing
from ..repository import ModelRepository
from ..settings import Settings
from ..telemetry.metrics import Meters
from ..types import RepositoryIndexResponseItem
from .backend import Backend
from .in_process import InProcessCalls, InProcessTransport
from .served import Served, resolve

if TYPE_CHECKING:
    from .rest.asgi import AsgiApp

P = ParamSpec("P")
T = TypeVar("T")

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
        **settings: Any,
    ) -> None:
        replacements = Replacements(overrides or {})
        with replacing(replacements):
            own, repository = resolve(served, settings, repository)
        self._backend = Backend(own.model_copy(update=WITHOUT_PORTS), repository, replacements)

    @property
    def settings(self) -> Settings:
        """The settings of the server, complete."""
        return self._backend.settings

    @property
    def meters(self) -> Meters:
        """The metrics that `/metrics` shows."""
        return self._backend.meters

    @property
    def models(self) -> ServerModels:
        """The models, as the doors and dialects of plug-ins see them."""
        return self._backend.dataplane

    @property
    def started(self) -> bool:
        """Whether each model has loaded or failed."""
        return self._backend.started

    @property
    def ready(self) -> bool:
        """Whether all models that should serve do, and the application does not stop."""
        return self._backend.registry.ready

    @property
    def leaving(self) -> bool:
        """Whether `leave`, `drain` or `stop` has begun."""
        return self._backend.registry.leaving

    @property
    def loaded(self) -> list[tuple[str, str | None]]:
        """Names and versions of the models that have loaded."""
        return self._backend.registry.names()

    @property
    def unserved(self) -> list[tuple[str, str | None]]:
        """Names and versions of the models that are loading, have failed to load, or load with their first call."""
        return [*self._backend.registry.unserved]

    async def index(self, *, ready: bool = False) -> list[RepositoryIndexResponseItem]:
        """Every version on disk or in memory with its state; with `ready` only those that serve."""
        return await self._backend.registry.index(ready)

    async def load(self, name: str) -> None:
        """Load or reload every version of a model. If that fails, the version that serves stays.

        Raises ModelNotFound, ModelLoadFailed.
        """
        await self._backend.registry.load(name)

    async def unload(self, name: str) -> bool:
        """Unload every version of a model after its calls in progress; False without any."""
        return await self._backend.registry.unload(name)

    def leave(self) -> None:
        """Be not ready from now on, and go on serving, so that others send their calls elsewhere."""
        self._backend.registry.leaving = True

    async def drain(self, grace: float) -> None:
        """Refuse new calls, give those in progress `grace` seconds, and end the rest. The models stay loaded."""
        self.leave()
        await self._backend.registry.stop(grace)

    async def start(self) -> None:
        """Load the models. In strict mode raises the first model's failure."""
        await self._backend.start()

    async def stop(self) -> None:
        """Refuse new calls, let calls in progress finish, end the rest and unload, within the limits."""
        await self._backend.stop()

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
        return InProcessCalls(self._backend.dataplane, lambda: self.started)

    @cached_property
    def _client(self) -> AsyncClient:
        transport = InProcessTransport(self.calls, self._backend.dataplane, self.settings.status_profile)
        return InProcessClient(transport)

    @cached_property
    def asgi(self) -> "AsgiApp":
        """A complete ASGI application with lifespan, HTTP and WebSocket, for any server or for a mount."""
        from .grpc.web.door import build_web  # late: not every application serves HTTP
        from .rest.app import RestApp
        from .rest.asgi import AsgiApp
        from .rest.origins import Origins

        settings = self.settings
        web = build_web(self._backend.rpcs, settings, Origins(settings).check) if settings.grpc_web else None
        return AsgiApp(
            RestApp(self._backend.dataplane, settings, self.meters, self._backend.edges, web), self
        )

    @asynccontextmanager
    async def lifespan(self, host: Any) -> AsyncIterator[None]:
        """The lifespan of the Starlette or FastAPI application that `asgi` is mounted in.

        Raises InvalidSettings if the mount and another route of `host` hide each other.
        """
        from .rest.mounting import check_mounts

        async with self:
            check_mounts(host, self.asgi, self._backend.dataplane, self.settings, self.meters)
            yield

    def grpc_services(self) -> tuple[Any, ...]:
        """The services, for `add_generic_rpc_handlers` of a `grpc.aio` server."""
        from .grpc.grpcio.handlers import RpcHandlers  # late: it imports the library

        return (RpcHandlers(self._backend.rpcs),)


def application_of(backend: Backend) -> Application:
    """The application of a server that has ports of its own."""
    application = Application.__new__(Application)
    application._backend = backend
    return application
