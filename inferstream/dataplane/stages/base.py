"""The contract of stage factories: their arguments, and the value that they fill in for the dataplane."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...text.interface import text_interface
from ..checks import checks_of
from ..execution.base import Execution
from ..handler import Handler

if TYPE_CHECKING:
    from ...settings import Settings
    from ...telemetry.metrics import Meters, ModelMeters
    from ...telemetry.tracing import Tracer
    from .store import Store


Result = TypeVar("Result")


@dataclass(frozen=True)
class Shared:
    """What the stages of all models share."""

    settings: "Settings"
    meters: "Meters"
    store: "Store | None" = None
    """What the response cache holds, where the settings ask for one."""
    tracer: "Tracer | None" = None
    """What makes spans, where the settings name a collector."""


class Gate(Protocol):
    """Refuses a request of which nothing is known yet but its model."""

    def check(self, model: str) -> None:
        """Raises Overloaded."""


class LiveCalls(Protocol):
    """The calls of one model that are in progress."""

    async def emptied(self) -> None:
        """Wait until no call is in progress."""

    async def run(self, awaited: Awaitable[Result]) -> Result:
        """Run work of the current task that is no inference, and that is waited for and ended like one."""

    def fail(self, error: Exception) -> None:
        """End every call in progress with `error`."""


class Pipeline:
    """One model and the stages put around it so far; factories fill in what the dataplane needs."""

    live: LiveCalls

    def __init__(self, execution: Execution, meters: "ModelMeters") -> None:
        self.execution = execution
        self.settings = execution.settings
        self.checks = checks_of(execution.signature, execution.strictness)
        self.text = text_interface(execution.signature, execution.settings)
        self.meters = meters
        self.handler: Handler = execution
        """The outermost stage so far."""
        self.slots = execution.slots
        """Calls that the handler runs at once."""
        self.gate: Gate | None = None
        self.at_retirement: list[Callable[[], None]] = []
        """Called after the model's last call, before the model is unloaded."""


StageFactory = Callable[[Handler, Pipeline, Shared], Handler | None]
"""Makes a stage around a handler: `(inner, model, shared)`; None where the stage is off for this model."""
