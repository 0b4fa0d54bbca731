"""Models served without ports: embedded in a program, mounted in another ASGI application, or in a test."""

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
from .serve_target import Served, resolve

if TYPE_CHECKING:
    from .rest.asgi import AsgiApp

P = ParamSpec("P")
T = TypeVar("T")

WITHOUT_PORTS = {"host": "0.0.0.0", "frontends": 1}
"""Fixed settings of an application, whose ports belong to another server and may be public."""


def _delegate(
    method: Callable[Concatenate[AsyncClient, P], T],
) -> Callable[Concatenate["Application", P], T]:
    """Return an `Application` method that calls the same method of its client."""

    @wraps(method)
    def call(self: "Application", /, *arguments: P.args, **named: P.kwargs) -> T:
        return method(self._client, *arguments, **named)

    return call


class Application:
    """An application that serves models without a port, in this process and in any configured workers.

    `served` is a folder of models, a `Settings`, a model class, a model, a `ModelSettings`, a list of these,
    or a mapping from names to model classes and models. Keyword arguments are server settings. Settings for
    ports, additional front ends and Kafka have no effect. `overrides` maps dependencies to the functions that
    replace them.

    `async with application` loads the models. On exit it lets calls in progress finish for up to
    `shutdown_grace` seconds, cancels the rest and unloads the models. An application runs once, on one event
    loop.

    Raises InvalidSettings.
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
        """The complete server settings."""
        return self._backend.settings

    @property
    def meters(self) -> Meters:
        """The metrics published at `/metrics`."""
        return self._backend.meters

    @property
    def models(self) -> ServerModels:
        """The interface to the models that plug-in transports and dialects use."""
        return self._backend.dataplane

    @property
    def started(self) -> bool:
        """Whether every model has either loaded or failed."""
        return self._backend.started

    @property
    def ready(self) -> bool:
        """Whether every expected model is serving and the application is not stopping."""
        return self._backend.registry.ready

    @property
    def leaving(self) -> bool:
        """Whether `leave`, `drain` or `stop` has been called."""
        return self._backend.registry.leaving

    @property
    def loaded(self) -> list[tuple[str, str | None]]:
        """The name and version of each loaded model."""
        return self._backend.registry.names()

    @property
    def unserved(self) -> list[tuple[str, str | None]]:
        """The name and version of each model that is not serving.

        The model is loading, failed to load, or is configured to load on its first call.
        """
        return [*self._backend.registry.unserved]

    async def index(self, *, ready: bool = False) -> list[RepositoryIndexResponseItem]:
        """List the state of every version on disk or in memory. With `ready`, list only those serving."""
        return await self._backend.registry.index(ready)

    async def load(self, name: str) -> None:
        """Load or reload every version of a model. If the load fails, the current versions continue to serve.

        Raises ModelNotFound or ModelLoadFailed.
        """
        await self._backend.registry.load(name)

    async def unload(self, name: str) -> bool:
        """Unload every version of a model once its calls in progress finish.

        Returns False if no version was loaded.
        """
        return await self._backend.registry.unload(name)

    def leave(self) -> None:
        """Report not ready but continue to serve, so that load balancers send new calls to other servers."""
        self._backend.registry.leaving = True

    async def drain(self, grace: float) -> None:
        """Reject new calls, let calls in progress finish for up to `grace` seconds, then cancel the rest.

        The models stay loaded.
        """
        self.leave()
        await self._backend.registry.stop(grace)

    async def start(self) -> None:
        """Load the models. In strict mode, raises the error of the first model that fails to load."""
        await self._backend.start()

    async def stop(self) -> None:
        """Reject new calls, let calls in progress finish, cancel the rest and unload the models.

        Each step has a time limit (`stopping.py`).
        """
        await self._backend.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    predict = _delegate(AsyncClient.predict)
    """Call a model in this process, with the arguments, return values and errors of `AsyncClient.predict`.

    Without `timeout`, the timeouts of the settings apply. A CallFailed has the original error as `__cause__`.
    """
    stream = _delegate(AsyncClient.stream)
    """Yield each item of a stream as soon as the model produces it. Closing the stream cancels the call."""

    @cached_property
    def calls(self) -> InProcessCalls:
        """In-process model calls that accept inference requests and raise the models' errors unchanged."""
        return InProcessCalls(self._backend.dataplane, lambda: self.started)

    @cached_property
    def _client(self) -> AsyncClient:
        transport = InProcessTransport(self.calls, self._backend.dataplane, self.settings.status_profile)
        return InProcessClient(transport)

    @cached_property
    def asgi(self) -> "AsgiApp":
        """A complete ASGI application (lifespan, HTTP and WebSocket), to mount or run on any ASGI server."""
        from .grpc.web.door import build_web  # Imported lazily: not every application serves HTTP.
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
        """The lifespan for a Starlette or FastAPI application that mounts `asgi`.

        Raises InvalidSettings if the mount and another route of `host` shadow each other.
        """
        from .rest.mounting import check_mounts

        async with self:
            check_mounts(host, self.asgi, self._backend.dataplane, self.settings, self.meters)
            yield

    def grpc_services(self) -> tuple[Any, ...]:
        """Return the gRPC services, as the argument of `grpc.aio.Server.add_generic_rpc_handlers`."""
        from .grpc.grpcio.handlers import RpcHandlers  # Imported lazily: it needs grpcio.

        return (RpcHandlers(self._backend.rpcs),)


def wrap_backend(backend: Backend) -> Application:
    """Create an `Application` for the backend of a server that has its own ports."""
    application = Application.__new__(Application)
    application._backend = backend
    return application
