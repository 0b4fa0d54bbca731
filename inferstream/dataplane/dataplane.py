"""The interface for doors: inference, metadata, readiness and the repository."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

from ..codecs.values.flat import FlatArguments
from ..errors import DeadlineExceeded, Draining, ModelNotFound, ModelNotReady
from ..extensions import PROTOCOL_EXTENSIONS, loaded
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
from .stages.access_log import refused

Result = TypeVar("Result")
F = TypeVar("F")

EXTENSIONS = ("binary_tensor_data", "model_repository", "parameters")
"""Extensions of the protocol that every server has."""


class Described(NamedTuple):
    """What a model does, for its documentation."""

    signature: Signature
    capabilities: Capabilities
    settings: ModelSettings
    created: int = 0
    """When it was loaded, in seconds since 1970."""
    facets: Mapping[type, object] = {}
    """What plug-ins know of it, by type."""
    calls: CallGraph = CallGraph()
    """The models that it calls."""
    resident: Resident | None = None
    """How it leaves memory and comes back; None for a model that stays."""

    def facet(self, kind: type[F]) -> F | None:
        """What a plug-in knows of it, as `Pipeline.facet`."""
        return cast("F | None", self.facets.get(kind))

    def arguments(self, inputs: Sequence[MetadataTensor]) -> FlatArguments:
        """A reader of flat objects whose keys are these inputs, which the model's metadata name."""
        return FlatArguments(inputs, self.signature.function)


class DataPlane:
    """The operations of the server, for every transport."""

    def __init__(
        self, settings: Settings, registry: Serving, access: Authority, peers: Peers | None = None
    ) -> None:
        self._settings = settings
        self._registry = registry
        self.access = access
        self.peers = peers or Peers()
        self.credentials = Credentials(settings.credential_headers)
        self._read_gateway = access.read_gateway
        self.cancel = Cancelling(lambda: registry.lives(), self.peers, self.credentials).cancel
        """Cancels every call of a request id and of the caller's credentials."""
        joined = [
            plugin.name for plugin, has in loaded(PROTOCOL_EXTENSIONS, settings.strict) if has(settings)
        ]
        self._metadata = MetadataServerResponse(
            name=settings.server_name,
            version=settings.server_version,
            extensions=[*sorted([*EXTENSIONS, *joined]), *settings.extensions],
        )

    def of(self, make: Callable[[ServerParts], Result]) -> Result:
        """What `make` makes of the parts of this server, once."""
        return self._registry.parts.of(make)

    def admit(
        self, model: str, version: str | None, caller: Caller, action: Action = Action.INFER
    ) -> Admission:
        """Admit a caller to a model. A door asks once, as soon as it knows the model's name.

        A full queue refuses before the request is parsed. Raises PermissionDenied, ModelNotFound, ModelNotReady,
        Draining, Overloaded; and NotLoaded, after which `when_loaded` asks again.
        """
        self.access.check(action, caller, model)
        if self._read_gateway is not None:
            self._read_gateway(caller)
        served = self._registry.serving(model, version, caller)
        if served.refuse is not None:
            served.refuse(model)
        return Admission(served, self._registry, model, version, caller, self.access.metering)

    async def when_loaded(self, ask: Callable[[], Result], deadline: float | None = None) -> Result:
        """`ask()`, after each model that it finds unloaded has loaded. Raises DeadlineExceeded, and what `ask` raises.

        Raises ModelNotReady, OutOfMemory and Overloaded for a model that does not load.
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

    async def admit_loaded(
        self, model: str, version: str | None, caller: Caller, action: Action = Action.INFER
    ) -> Admission:
        """Admit a caller to a model, after its load if it loads on demand."""
        return await self.when_loaded(lambda: self.admit(model, version, caller, action), caller.deadline)

    def refused(
        self, caller: Caller, operation: str, model: str, error: BaseException, began: float | None = None
    ) -> None:
        """Log a request that ended in an error before it became a call; `began` is on the clock of `perf_counter`."""
        if getattr(error, "told", False):
            return
        refused(self._registry.lines, caller, operation, model, error, began)
        self.access.refused(operation, caller, model, error)

    def custom_routes(self) -> list[tuple[CustomHandler, str]]:
        """REST routes of models, each with its model's name; the same list until a model is loaded or unloaded."""
        return self._registry.routes

    async def call_route(
        self,
        name: str,
        read: Callable[[], Awaitable[HttpRequest]],
        write: Callable[[HttpResponse, Callable[[int], None]], Awaitable[None]],
        caller: Caller,
    ) -> None:
        """Call a REST route with what `read` returns. `write` sends the response, and counts its bytes.

        Draining waits for both and ends them. Raises PermissionDenied, ModelNotFound, ModelNotReady, Draining, what the
        model raises, and what `read` and `write` raise.
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
            use = caller.key.use or self.access.metering.use_of(caller.key)

        def count(size: int) -> None:
            if use is not None:
                use.sent += size

        async def respond() -> None:
            response = await served.execution.ask(request)
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
        """Where the records of the access log go."""
        return self._registry.lines

    @property
    def ready(self) -> bool:
        """Whether every wanted model is ready, and the server is not draining."""
        return self._registry.ready

    def model_ready(self, name: str, version: str | None = None) -> bool:
        """Whether this model serves, or would with a call; False while it loads or after it failed.

        Raises ModelNotFound.
        """
        try:
            ready = self._registry.get(name, version).ready
        except ModelNotReady:
            if self._registry.on_demand(name, version) is None:
                raise
            ready = True
        return ready and not self._registry.draining

    def server_metadata(self) -> MetadataServerResponse:
        return self._metadata

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        """Raises ModelNotFound, ModelNotReady."""
        served = await self.when_loaded(lambda: self._registry.serving(name, version))
        return await served.execution.metadata()

    def described(self, name: str, version: str | None = None) -> Described:
        """What people are told of a model. Raises ModelNotFound, ModelNotReady."""
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
        """Models with a typed RPC; the same list until a model is loaded or unloaded."""
        return self._registry.typed

    def models(self, caller: Caller) -> list[tuple[str, str | None]]:
        """Names and versions that the caller may see."""
        return [key for key in self._registry.names() if self.access.sees(caller, key[0])]

    def faceted(self, kind: type[F], caller: Caller) -> "list[Faceted[F]]":
        """Every loaded model that has a facet of this type and may be seen, each version of it."""
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
        """Name and version of a model that loads; None if there is none."""
        states = self._registry.unserved.items()
        return next((key for key, (state, _) in states if state is State.LOADING), None)

    def subscribers(self) -> Subscribers:
        """The subscribers of the access log. Raises Draining."""
        if self._registry.draining:
            raise Draining
        return self._registry.subscribers

    async def index(self, caller: Caller, ready: bool | None = None) -> list[RepositoryIndexResponseItem]:
        """Every model on disk or in memory that the caller may see, with its state. Raises PermissionDenied."""
        self.access.check(Action.REPOSITORY_READ, caller)
        items = await self.access.run(
            Action.REPOSITORY_READ, caller, "", lambda: self._registry.index(ready=bool(ready))
        )
        return [item for item in items if self.access.sees(caller, item.name)]

    async def load(self, name: str, caller: Caller) -> None:
        """Load or reload every version of a model; returns when it is ready.

        Raises PermissionDenied, ModelNotFound, ModelLoadFailed. If loading fails, the version that serves stays.
        """
        self.access.check(Action.REPOSITORY_WRITE, caller, name)
        evicts_var.set(True)
        await self.access.run(Action.REPOSITORY_WRITE, caller, name, lambda: self._registry.load(name))

    async def unload(self, name: str, caller: Caller) -> None:
        """Unload a model after its calls in progress. Raises PermissionDenied, ModelNotFound."""

        async def unload() -> None:
            if not await self._registry.unload(name):
                raise ModelNotFound(name)

        self.access.check(Action.REPOSITORY_WRITE, caller, name)
        await self.access.run(Action.REPOSITORY_WRITE, caller, name, unload)
