"""The contract of stage factories: their arguments and their results."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from ...codecs.values.flat import FlatInterface, flat_interface
from ...imports.untrusted import untrusted
from ...protos.json_checks import UNLIMITED, JsonLimits
from ...telemetry.access import AccessLines
from ...text.interface import TextInterface, text_interface
from ...types import InferenceRequest
from ...types.forms import InputsForm
from ..call import Handler
from ..caller import Caller
from ..checks import Checks, checks_of, most_rows_of
from ..execution.base import Execution
from ..server_parts import ServerParts
from ..slots import Slots

if TYPE_CHECKING:
    from ...functions.app import App
    from ...functions.middleware import Middleware
    from ...settings import ModelSettings
    from ...telemetry.model_meters import ModelMeters
    from ..edges import CallEdges
    from .live import Live
    from .store import Store


Text = TypeVar("Text")

ChooseVersion = Callable[[Callable[[str], bool], Caller], str | None]
"""Chooses a version for a caller, of those that are ready; None for the default."""


class Marks(Protocol):
    """Headers that mark the requests and responses of a model."""

    def add_to(self, request: InferenceRequest, model: str) -> None:
        """Add headers to a request that has its id."""

    def headers(self, model: str, id: str | None, written: Callable[[str], Text]) -> list[tuple[Text, Text]]:
        """The headers of a response with this id; `written` converts a text to the type of the transport."""


@dataclass(frozen=True)
class Shared(ServerParts):
    store: "Store | None" = None
    """The contents of the response cache; None where the settings turn it off."""
    middlewares: "tuple[Middleware, ...]" = ()
    """Functions around every call of every model, the first outermost."""
    lines: AccessLines = field(default_factory=AccessLines)
    """Where the records of the access log go."""
    fair: bool = False
    """Whether principals share the turns of a model."""
    stages: "tuple[StageFactory, ...]" = ()
    """Those around each model, from the inside out."""
    edges: "CallEdges | None" = None
    """Which models call others; None where there are no other models."""


@dataclass(frozen=True)
class Pipeline:
    """One model and its stages so far. A factory returns a copy with what it adds."""

    execution: Execution
    meters: "ModelMeters"
    app: "App | None"
    """The app of the model's function, as this process has imported it."""
    checks: Checks
    text: TextInterface | None
    flat: FlatInterface | None
    """How flat JSON objects become requests; None if the inputs are not known."""
    form: InputsForm | None
    """The form of requests that need no tensors; None if a stage reads tensors, or the model does."""
    handler: Handler
    """The outermost stage so far."""
    slots: Slots
    """Calls that the handler runs at once."""
    limits: JsonLimits = UNLIMITED
    """How much JSON, how many elements and how many numbers of lists a request may hold."""
    refuse: Callable[[str], None] | None = None
    """Refuses a call for the queue before its request is parsed. Parsing costs more than the whole refusal.

    None where an outer stage must see refused calls, or may serve a call without the queue.
    """
    live: "Live | None" = None
    """The calls in progress."""
    marks: Marks | None = None
    """Headers of its requests and responses, beside those of clients and models."""
    choose: ChooseVersion | None = None
    """Chooses the version for calls without one, if this is the version that would get them."""
    at_retirement: tuple[Callable[[], None], ...] = ()
    """Called after the model's last call, before it is unloaded."""

    @property
    def settings(self) -> "ModelSettings":
        return self.execution.settings

    @property
    def hidden(self) -> bool:
        """Whether its settings hide it from clients of texts."""
        return self.settings.openai is False

    @property
    def takes_any(self) -> bool:
        """Whether requests may hold objects beyond the protocol's texts and numbers."""
        return self.execution.strictness == "off"

    @classmethod
    def of(
        cls, execution: Execution, meters: "ModelMeters", limits: JsonLimits, app: "App | None" = None
    ) -> Self:
        """A model without stages."""
        text = text_interface(execution.signature, execution.settings, untrusted)
        if text is not None:
            text.limits = limits
        return cls(
            execution,
            meters,
            app,
            checks_of(execution.signature, execution.strictness, most_rows_of(execution.settings)),
            text,
            flat_interface(execution.signature, limits.values),
            execution.form,
            execution,
            execution.slots,
            limits,
        )


StageFactory = Callable[[Pipeline, Shared], Pipeline]
"""Puts a stage around a model's handler; returns the pipeline as it is if the stage is off for this model."""
