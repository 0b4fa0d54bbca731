"""Everything a door can ask for: inference, metadata, readiness and the repository."""

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Literal

from ..errors import ModelNotFound, ModelNotReady
from ..handlers import CustomHandler
from ..settings import Settings
from ..types import (
    InferenceRequest,
    MetadataModelResponse,
    MetadataServerResponse,
    MetadataTensor,
    Parameters,
    RepositoryIndexResponseItem,
)
from .access import Access
from .call import Call, identify
from .cloudevents import CloudEvents, wanted
from .execution.base import Execution
from .priority import apply_parameters
from .reply import Reply
from .serving import ServedModel, Serving

EXTENSIONS = ("binary_tensor_data", "model_repository", "parameters")
"""What of the protocol's extensions is implemented, in Triton's spelling."""


class DataPlane:
    """The face of the server's inside; no method knows which transport asks."""

    def __init__(self, settings: Settings, registry: Serving, access: Access) -> None:
        self._settings = settings
        self._registry = registry
        self._access = access
        self.events = CloudEvents(settings.server_name) if wanted(settings.cloudevents_headers) else None
        """What makes CloudEvents headers, where the settings want them."""
        self._metadata = MetadataServerResponse(
            name=settings.server_name,
            version=settings.server_version,
            extensions=[*EXTENSIONS, *settings.extensions],
        )

    def expect(self, model: str, version: str | None) -> ServedModel:
        """The model that will answer, for `open`, unless it would refuse whatever a request says.

        To be asked before the request is parsed. Raises ModelNotFound, ModelNotReady, Draining, Overloaded.
        """
        served = self._registry.serving(model, version)
        if served.gate is not None:
            served.gate.check(model)
        return served

    def open(self, call: Call, served: ServedModel | None = None) -> Awaitable[Reply]:
        """Route a call to its model, which is `served` where that was just asked, and open the reply.

        Raises InvalidRequest, ModelNotFound, ModelNotReady, Draining, at once or when it is awaited, or
        whatever a stage or the model refuses with.
        """
        apply_parameters(call, self.identify(call.request, call.model, call.headers))
        if served is None:
            served = self._registry.serving(call.model, call.version)
        call.priority = call.priority or served.priority
        return served.handler(call)

    def left_unopened(self, model: str, version: str | None) -> None:
        """Count a call that its client has cancelled before `open` was reached."""
        with suppress(ModelNotFound, ModelNotReady):
            self._registry.get(model, version).meters.left_unopened()

    def identify(self, request: InferenceRequest, model: str, headers: Mapping[str, str]) -> Parameters:
        """Give a request to `model` an id if it has none, and its headers; `open` does so for the first of a call."""
        parameters = identify(request, headers)
        if self.events is not None:
            self.events.add_to(request, model)
        return parameters

    def custom_routes(self) -> list[tuple[CustomHandler, Execution]]:
        """REST routes of models' own; the same list until a model comes or goes."""
        return self._registry.routes

    def declared_inputs(self, name: str, version: str | None = None) -> list[MetadataTensor]:
        """The inputs a model declares. Raises ModelNotFound, ModelNotReady."""
        return self._registry.get(name, version).execution.inputs

    def streams(self, name: str, version: str | None = None) -> bool:
        """Whether a model makes streams of its own; False for one that is not there."""
        try:
            return self._registry.get(name, version).execution.capabilities.streams
        except (ModelNotFound, ModelNotReady):
            return False

    def takes_any(self, name: str, version: str | None = None) -> bool:
        """Whether requests to a model may hold objects where the protocol has texts and numbers; False without it."""
        try:
            return self._registry.get(name, version).takes_any
        except (ModelNotFound, ModelNotReady):
            return False

    def stream_dialect(self, name: str) -> Literal["mlserver", "triton"] | None:
        """The dialect a model's settings name for gRPC streams."""
        try:
            return self._registry.get(name).execution.settings.grpc_stream_dialect
        except (ModelNotFound, ModelNotReady):
            return None

    @property
    def ready(self) -> bool:
        """Whether every model that should serve does, and the server is not draining."""
        return self._registry.ready

    def model_ready(self, name: str, version: str | None = None) -> bool:
        """Whether this model answers; False when it is loading or failed. Raises ModelNotFound."""
        return self._registry.get(name, version).ready and not self._registry.draining

    def server_metadata(self) -> MetadataServerResponse:
        return self._metadata

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        """What the model says of itself. Raises ModelNotFound, ModelNotReady."""
        return await self._registry.serving(name, version).execution.metadata()

    def models(self) -> list[tuple[str, str | None]]:
        """Name and version of every model that is loaded."""
        return self._registry.names()

    async def index(self, ready: bool | None = None) -> list[RepositoryIndexResponseItem]:
        """Every model on disk or in memory, with its state. Raises PermissionDenied."""
        self._access.check_repository()
        return await self._registry.index(ready=bool(ready))

    async def load(self, name: str) -> None:
        """Load, or load anew, every version of a model; returns when it is ready.

        Raises PermissionDenied, ModelNotFound, ModelLoadFailed; a version that was serving goes on
        serving when its successor fails.
        """
        self._access.check_repository()
        await self._registry.load(name)

    async def unload(self, name: str) -> None:
        """Take a model out of service once its calls in progress are done. Raises PermissionDenied, ModelNotFound."""
        self._access.check_repository()
        if not await self._registry.unload(name):
            raise ModelNotFound(name)
