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
"""Makes the handler of a model's REST routes, if it has any. The server provides it, because only it uses HTTP."""


class Capabilities(NamedTuple):
    """The methods that a model's author wrote."""

    predict: bool
    """It can return a single response."""
    streams: bool
    """It has a streaming method of its own."""
    steps: bool
    """Its streams advance together, by steps."""
    gathers: bool = False
    """Its streams have one item, made of a stream of requests."""
    adapted: frozenset[str] = frozenset()
    """What plug-ins have added, by their names for it."""

    def __str__(self) -> str:
        """For people: `predict`, `stream` or `steps`, or `predict` and one of these."""
        streams = self.streams and not self.gathers
        words = [(self.predict or self.gathers, "predict"), (streams, "steps" if self.steps else "stream")]
        return ", ".join(word for there, word in words if there)


class Execution(Protocol):
    """A loaded model: the innermost handler, with the attributes that stages and doors need."""

    settings: ModelSettings
    strictness: Strictness
    """How strictly requests and responses are checked; fixed when the model loads."""
    signature: Signature
    """Its outputs are those that requests may select; unknown if the model itself selects."""
    form: InputsForm | None
    """The form of requests that need no tensors; None if all need them."""
    routes: list[CustomHandler]
    """REST routes of the model."""
    capabilities: Capabilities
    slots: Slots
    """The number of calls that may run at once."""

    @property
    def resident(self) -> "Resident | None":
        """How it leaves memory and comes back; None for a model that stays."""

    @property
    def ready(self) -> bool:
        """Whether it would run a call now."""

    @property
    def is_restarting(self) -> bool:
        """Whether every worker process with it has ended, and another is being started."""

    def __call__(self, call: Call) -> Awaitable[Reply]: ...

    @property
    def capacity(self) -> int:
        """The calls that model code can run at once: streams of steps, else slots. 0 where other front ends say it."""

    def measure(self) -> None:
        """Bring the meters of the KV cache up to date."""

    def meter(self, meters: ModelMeters) -> None:
        """Count here what happens behind the stages: in workers, and in the steps of a model."""

    def order(self, turns: Turns) -> None:
        """Choose the streams of the next steps by these turns; before the first call."""

    async def metadata(self) -> MetadataModelResponse:
        """The model's metadata."""

    async def ask(self, request: HttpRequest) -> HttpResponse:
        """Handle a request to a REST route of the model."""

    async def unload(self) -> None:
        """Run the model's `unload` and release threads or workers."""
