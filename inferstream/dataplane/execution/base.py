"""What the dataplane needs of a loaded model, wherever its code runs."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from ...handlers import CustomHandler, HttpRequest, HttpResponse, RouteHandler
from ...settings import ModelSettings
from ...signature import Signature
from ...telemetry.queues import QueueMeters
from ...telemetry.steps import StepMeters
from ...types import MetadataModelResponse
from ..call import Call
from ..checks import Strictness
from ..reply import Reply

BuildRouteHandler = Callable[[object], Awaitable[RouteHandler | None]]
"""Makes what answers a model's own routes, if it has any; the server's business, because only it knows HTTP."""


class Execution(Protocol):
    """A loaded model: the innermost handler, with what stages and doors ask of it."""

    settings: ModelSettings
    strictness: Strictness
    """How closely requests and responses are checked; decided when the model was loaded."""
    signature: Signature
    """Its outputs are those that requests may ask for, and unknown when the model itself decides on that."""
    routes: list[CustomHandler]
    """REST routes of the model's own."""

    @property
    def capabilities(self) -> str:
        """What the model's author wrote: `predict`, `stream` or `steps`, or `predict` and one of these."""

    @property
    def slots(self) -> int:
        """Calls that may run at once."""

    @property
    def ready(self) -> bool:
        """Whether a call that comes now would be run."""

    def __call__(self, call: Call) -> Awaitable[Reply]: ...

    def meter(self, queue: QueueMeters, steps: StepMeters | None) -> None:
        """Count here what waits beyond the stages, and the steps of a model that has them."""

    async def metadata(self) -> MetadataModelResponse:
        """What the model says of itself."""

    async def ask(self, request: HttpRequest) -> HttpResponse:
        """Answer a request to one of the model's own routes."""

    async def unload(self) -> None:
        """Run the model's `unload` and let go of what it ran in."""
