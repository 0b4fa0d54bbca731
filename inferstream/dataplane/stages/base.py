"""The contract of stage factories: their arguments and their results."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...codecs.values.flat import flat_interface
from ...telemetry.access import AccessLines
from ...text.interface import text_interface
from ..checks import checks_of
from ..execution.base import Execution
from ..handler import Handler

if TYPE_CHECKING:
    from ...functions.app import App
    from ...functions.middleware import Middleware
    from ...settings import Settings
    from ...telemetry.metrics import Meters, ModelMeters
    from ...telemetry.tracing import Tracer
    from .live import Live
    from .long_calls import LongCalls
    from .store import Store


@dataclass(frozen=True)
class Shared:
    settings: "Settings"
    meters: "Meters"
    long_calls: "LongCalls"
    store: "Store | None" = None
    """The contents of the response cache; None where the settings turn it off."""
    tracer: "Tracer | None" = None
    """Makes spans; None without a collector in the settings."""
    middlewares: "tuple[Middleware, ...]" = ()
    """Functions around every call of every model, the first outermost."""
    lines: AccessLines = field(default_factory=lambda: AccessLines(logged=False))
    """Where the records of the access log go."""


class Pipeline:
    """One model and its stages so far. Factories set what the dataplane needs."""

    live: "Live"

    def __init__(self, execution: Execution, meters: "ModelMeters", app: "App | None" = None) -> None:
        self.execution = execution
        self.app = app
        """The app of the model's function, as this process has imported it."""
        self.settings = execution.settings
        self.checks = checks_of(execution.signature, execution.strictness)
        self.text = text_interface(execution.signature, execution.settings)
        self.flat = flat_interface(execution.signature)
        self.form = execution.form
        """The form of requests that need no tensors; None if a stage reads tensors, or the model does."""
        self.meters = meters
        self.handler: Handler = execution
        """The outermost stage so far."""
        self.slots = execution.slots
        """Calls that the handler runs at once."""
        self.gate: Callable[[str], None] | None = None
        """Refuses a call for the queue before its request is parsed. Parsing costs more than the whole refusal."""
        self.at_retirement: list[Callable[[], None]] = []
        """Called after the model's last call, before it is unloaded."""


StageFactory = Callable[[Handler, Pipeline, Shared], Handler | None]
"""Makes a stage around a handler: `(inner, model, shared)`; None if the stage is off for this model."""
