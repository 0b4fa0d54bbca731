"""The interface of a loaded model, in this process or in workers."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...handlers import CustomHandler, HttpRequest, HttpResponse, RouteHandler
from ...settings import ModelSettings
from ...signature import Signature
from ...telemetry.model_meters import ModelMeters
from ...types import MetadataModelResponse
from ...types.forms import InputsForm
from ..call import Call
from ..checks import Strictness
from ..reply import Reply
from ..slots import Slots
from ..turns import Turns

if TYPE_CHECKING:
    from ..residency import Resident

BuildRouteHandler = Callable[[object], Awaitable[RouteHandler | None]]
"""Builds the handler of a model's REST routes, if any. Injected, because only the server uses HTTP."""


class Capabilities(NamedTuple):
    """The methods that a model implements."""

    predict: bool
    """Whether it can return a single response."""
    streams: bool
    """Whether it implements a streaming method."""
    steps: bool
    """Whether all its streams advance together, step by step."""
    gathers: bool = False
    """Whether its streams have a single item, computed from a stream of requests."""
    adapted: frozenset[str] = frozenset()
    """Names of the plug-ins that have added methods to it."""

    def __str__(self) -> str:
        """Format for display: `predict`, `stream` or `steps`, or `predict` and one of the others."""
        streams = self.streams and not self.gathers
        words = [(self.predict or self.gathers, "predict"), (streams, "steps" if self.steps else "stream")]
        return ", ".join(word for there, word in words if there)


class Execution(Protocol):
    """A loaded model: the innermost handler, with the attributes that stages and transports need."""

    settings: ModelSettings
    strictness: Strictness
    """How strictly requests and responses are validated. Fixed when the model loads."""
    signature: Signature
    """The inputs and outputs. `outputs` is None if the model may select the requested outputs."""
    form: InputsForm | None
    """The form of requests that do not need tensors. None if all requests need them."""
    routes: list[CustomHandler]
    """REST routes that the model defines."""
    capabilities: Capabilities
    slots: Slots
    """The number of calls that may run concurrently."""
    has_workers: bool
    """Whether it runs in worker processes, and so not in this one."""

    @property
    def resident(self) -> "Resident | None":
        """The model's residency in memory, or None if it is never evicted."""

    @property
    def ready(self) -> bool:
        """Whether it can run a call now."""

    @property
    def is_restarting(self) -> bool:
        """Whether all its worker processes have died and a replacement is starting."""

    def __call__(self, call: Call) -> Awaitable[Reply]: ...

    @property
    def capacity(self) -> int:
        """Number of calls that model code can run concurrently: streams for step models, and slots otherwise.

        0 if another front end reports it.
        """

    def measure(self) -> None:
        """Update the metrics of the KV cache."""

    def meter(self, meters: ModelMeters) -> None:
        """Set the meters for execution details: worker processes, and the steps of step models."""

    def set_turns(self, turns: Turns) -> None:
        """Set the scheduling policy for streams of step models. Must be called before the first call."""

    async def metadata(self) -> MetadataModelResponse:
        """Return the model's metadata."""

    async def call_route(self, request: HttpRequest) -> HttpResponse:
        """Handle a request to one of the model's REST routes."""

    async def unload(self) -> None:
        """Run the model's `unload`, and release its threads or workers."""
