"""The contract of stage factories: their arguments, and the value that they fill in for the dataplane."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..checks import checks_of
from ..execution.base import Execution
from ..handler import Handler

if TYPE_CHECKING:
    from ...settings import Settings
    from ...telemetry.metrics import Meters, ModelMeters
    from ...telemetry.tracing import Tracer
    from .limits import QueueGate
    from .live import Live
    from .store import Store


@dataclass(frozen=True)
class Shared:
    """What the stages of all models share."""

    settings: "Settings"
    meters: "Meters"
    store: "Store | None" = None
    """What the response cache holds, where the settings ask for one."""
    tracer: "Tracer | None" = None
    """What makes spans, where the settings name a collector."""


class Pipeline:
    """One model and the stages put around it so far; factories fill in what the dataplane needs."""

    live: "Live"

    def __init__(self, execution: Execution, meters: "ModelMeters") -> None:
        self.execution = execution
        self.settings = execution.settings
        self.checks = checks_of(execution.signature, execution.strictness)
        self.meters = meters
        self.handler: Handler = execution
        """The outermost stage so far."""
        self.slots = execution.slots
        """Calls that the handler runs at once."""
        self.gate: QueueGate | None = None
        self.at_retirement: list[Callable[[], None]] = []
        """Called after the model's last call, before the model is unloaded."""


StageFactory = Callable[[Handler, Pipeline, Shared], Handler | None]
"""Makes a stage around a handler: `(inner, model, shared)`; None where the stage is off for this model."""
