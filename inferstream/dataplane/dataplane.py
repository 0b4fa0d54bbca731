"""`DataPlane`: inference, metadata, readiness and the repository, for all transports."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

from ..codecs.values.flat import FlatArguments
from ..errors import DeadlineExceeded, Draining, ModelNotFound, ModelNotReady
from ..extensions.entries import PROTOCOL_EXTENSIONS
from ..extensions.loading import load_group
from ..handlers import CustomHandler, HttpRequest, HttpResponse
from ..settings import ModelSettings, Settings
from ..signature import Signature
from ..telemetry.access import AccessLines, Subscribers
from ..types import (
    MetadataModelResponse,
    MetadataServerResponse,
    MetadataTensor,
    RepositoryIndexResponseItem,
    State,
)
from .access import Action, Authority, evicts_var
from .admission import Admission
from .caller import Caller
from .cancelling import Cancelling, Credentials
from .edges import CallGraph
from .execution.base import Capabilities
from .facets import Faceted
from .first_calls import NotLoaded
from .peers import Peers
from .residency import Resident
from .server_parts import ServerParts
from .serving import Serving
from .stages.access_log import log_rejection

Result = TypeVar("Result")
F = TypeVar("F")

EXTENSIONS = ("binary_tensor_data", "model_repository", "parameters")
"""Protocol extensions that every server supports."""


class Described(NamedTuple):
    """Properties of a model, for documentation and metadata."""

    signature: Signature
    capabilities: Capabilities
    settings: ModelSettings
    created: int = 0
    """Load time, in seconds since 1970."""
    facets: Mapping[type, object] = {}
    """Facets that plug-ins computed for the model, by type."""
    calls: CallGraph = CallGraph()
    """The models that this model calls."""
    resident: Resident | None = None
    """The model's residency in memory, or None if it is never evicted."""

    def facet(self, kind: type[F]) -> F | None:
        """Return the facet of this type, or None. See `Pipeline.facet`."""
        return cast("F | None", self.facets.get(kind))

    def arguments(self, inputs: Sequence[MetadataTensor]) -> FlatArguments:
        """Create a parser for flat JSON objects whose keys are the names of these inputs."""
        return FlatArguments(inputs, self.signature.function)


class DataPlane:
    """The server's operations, independent of the transport."""

    def __init__(
        self, settings: Settings, registry: Serving, access: Authority, peers: Peers | None = None
    ) -> None:
        self._settings = settings
        self._registry = registry
        self.access = access
        self.peers = peers or Peers()
        self.credentials = Credentials(settings.credential_headers)
        self._read_gateway = access.read_gateway
        self.cancel = Cancelling(lambda: registry.calls_in_progress(), self.peers, self.credentials).cancel
        """Cancels all calls with a request id and the caller's credentials. See `Cancelling.cancel`."""
        joined = [
            plugin.name for plugin, has in load_group(PROTOCOL_EXTENSIONS, settings.strict) if has(settings)
        ]
        self._metadata = MetadataServerResponse(
            name=settings.server_name,
            version=settings.server_version,
            extensions=[*sorted([*EXTENSIONS, *joined]), *settings.extensions],
        )

    def of(self, make: Callable[[ServerParts], Result]) -> Result:
        """Return `make(parts)`, cached per server."""
        return self._registry.parts.of(make)

    def admit(
        self, model: str, version: str | None, caller: Caller, action: Action = Action.INFER
    ) -> Admission:
        """Admit a caller to a model. Transports call this once, as soon as the model's name is known.

        If the queue is full, the request is rejected before it is parsed.

        Raises PermissionDenied, ModelNotFound, ModelNotReady, Draining or Overloaded. Raises NotLoaded if the
        model loads on demand. In that case, use `when_loaded` to retry after the load.
        """
        self.access.check(action, caller, model)
        if self._read_gateway is not None:
            self._read_gateway(caller)
        served = self._registry.serving(model, version, caller)
        if served.refuse is not None:
            served.refuse(model)
        return Admission(served, self._registry, model, version, caller, self.access.metering)

    async def when_loaded(self, ask: Callable[[], Result], deadline: float | None = None) -> Result:
        """Return `ask()`. Whenever it raises NotLoaded, wait until the model is loaded and retry.

        `deadline` is on the event loop's clock. Raises DeadlineExceeded or the errors of `ask`. If the model
        cannot be loaded, raises ModelNotReady, OutOfMemory or Overloaded.
        """
        loop = asyncio.get_running_loop()
        limit = self._settings.request_timeout
        latest = loop.time() + limit if limit else None
        while True:
            try:
                return ask()
            except NotLoaded as unloaded:
                waiting = self._registry.first_calls.wait(unloaded.key)
            try:
                async with asyncio.timeout_at(min(filter(None, (deadline, latest)), default=None)):
                    await waiting
            except TimeoutError:
                raise DeadlineExceeded from None

    async def load_and_admit(
        self, model: str, version: str | None, caller: Caller, action: Action = Action.INFER
    ) -> Admission:
        """Admit a caller to a model, and load the model first if it loads on demand."""
        return await self.when_loaded(lambda: self.admit(model, version, caller, action), caller.deadline)

    def log_rejection(
        self, caller: Caller, operation: str, model: str, error: BaseException, began: float | None = None
    ) -> None:
        """Log a request that failed before it became a call.

        `began` is its start time on the `perf_counter` clock.
        """
        if getattr(error, "told", False):
            return
        log_rejection(self._registry.lines, caller, operation, model, error, began)
        self.access.record_rejection(operation, caller, model, error)

    def custom_routes(self) -> list[tuple[CustomHandler, str]]:
        """Return the custom REST routes, each with its model's name.

        The list is replaced when models change.
        """
        return self._registry.routes

    async def call_route(
        self,
        name: str,
        read: Callable[[], Awaitable[HttpRequest]],
        write: Callable[[HttpResponse, Callable[[int], None]], Awaitable[None]],
        caller: Caller,
    ) -> None:
        """Call a custom route.

        `read` returns the request. `write` sends the response, and passes the size of each part to a
        callback.

        A draining server waits for the response, but rejects requests that have not been read.

        Raises PermissionDenied, LimitExceeded, ModelNotFound, ModelNotReady or Draining, or an error of the
        model, `read` or `write`.
        """
        self.access.check(Action.CUSTOM_ROUTE, caller, name)
        if self._registry.draining:
            raise Draining
        request = await read()
        if self._registry.draining:
            raise Draining
        served = self._registry.get(name)
        if self.access.restricts:
            request = request._replace(headers=[*self.access.split(request.headers)[0]])
        use = None
        if self.access.metering is not None and caller.key is not None:
            use = caller.key.use or self.access.metering.create_use(caller.key)

        def count(size: int) -> None:
            if use is not None:
                use.sent += size

        async def respond() -> None:
            response = await served.execution.call_route(request)
            try:
                await write(response, count)
            finally:
                if response.rest is not None:
                    await response.rest.aclose()

        work = partial(served.live.run, respond())
        await self.access.run(Action.CUSTOM_ROUTE, caller, name, work, len(request.body))

    def stream_dialect(self, name: str) -> str | None:
        try:
            return self._registry.get(name).execution.settings.grpc_stream_dialect
        except (ModelNotFound, ModelNotReady):
            return None

    @property
    def lines(self) -> AccessLines:
        """The sink of the access log."""
        return self._registry.lines

    @property
    def ready(self) -> bool:
        """Whether every expected model is ready and the server is not draining."""
        return self._registry.ready

    def model_ready(self, name: str, version: str | None = None) -> bool:
        """Whether this model is ready, or loads on demand. False while it loads or after its load failed.

        Raises ModelNotFound.
        """
        try:
            ready = self._registry.get(name, version).ready
        except ModelNotReady:
            if self._registry.find_on_demand(name, version) is None:
                raise
            ready = True
        return ready and not self._registry.draining

    def server_metadata(self) -> MetadataServerResponse:
        return self._metadata

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        """Return the model's metadata. Raises ModelNotFound or ModelNotReady."""
        served = await self.when_loaded(lambda: self._registry.serving(name, version))
        return await served.execution.metadata()

    def described(self, name: str, version: str | None = None) -> Described:
        """Return the model's properties, for documentation. Raises ModelNotFound or ModelNotReady."""
        served = self._registry.get(name, version)
        execution = served.execution
        calls = self._registry.edges.calls(execution)
        return Described(
            execution.signature,
            execution.capabilities,
            execution.settings,
            served.created,
            served.pipeline.facets,
            calls,
            execution.resident,
        )

    def typed_models(self) -> list[tuple[str, Signature]]:
        """Return the names and signatures of models with a typed RPC.

        The list is replaced when models change.
        """
        return self._registry.typed

    def models(self, caller: Caller) -> list[tuple[str, str | None]]:
        """Return the names and versions of the models that the caller may see."""
        return [key for key in self._registry.names() if self.access.sees(caller, key[0])]

    def faceted(self, kind: type[F], caller: Caller) -> "list[Faceted[F]]":
        """Return all versions of loaded models that have a facet of this type and that the caller may see."""
        return [
            Faceted(
                name,
                version,
                served.created,
                served.ready,
                served is self._registry.default(name),
                cast("F", served.pipeline.facet(kind)),
            )
            for (name, version), served in self._registry.faceted.get(kind, ())
            if self.access.sees(caller, name)
        ]

    def loading(self) -> tuple[str, str | None] | None:
        """Return the name and version of a model that is currently loading, or None."""
        states = self._registry.unserved.items()
        return next((key for key, (state, _) in states if state is State.LOADING), None)

    def subscribers(self) -> Subscribers:
        """Return the subscribers of the access log. Raises Draining."""
        if self._registry.draining:
            raise Draining
        return self._registry.subscribers

    async def index(self, caller: Caller, ready: bool | None = None) -> list[RepositoryIndexResponseItem]:
        """Return the models on disk or in memory that the caller may see, with their states.

        If `ready`, returns only models that are ready. Raises PermissionDenied.
        """
        self.access.check(Action.REPOSITORY_READ, caller)
        items = await self.access.run(
            Action.REPOSITORY_READ, caller, "", lambda: self._registry.index(ready=bool(ready))
        )
        return [item for item in items if self.access.sees(caller, item.name)]

    async def load(self, name: str, caller: Caller) -> None:
        """Load or reload every version of a model. Returns when the model is ready.

        Raises PermissionDenied, ModelNotFound or ModelLoadFailed. If the load fails, the current version
        keeps serving.
        """
        self.access.check(Action.REPOSITORY_WRITE, caller, name)
        evicts_var.set(True)
        await self.access.run(Action.REPOSITORY_WRITE, caller, name, lambda: self._registry.load(name))

    async def unload(self, name: str, caller: Caller) -> None:
        """Unload a model once its calls have finished. Raises PermissionDenied or ModelNotFound."""

        async def unload() -> None:
            if not await self._registry.unload(name):
                raise ModelNotFound(name)

        self.access.check(Action.REPOSITORY_WRITE, caller, name)
        await self.access.run(Action.REPOSITORY_WRITE, caller, name, unload)
