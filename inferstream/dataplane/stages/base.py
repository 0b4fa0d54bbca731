"""The contract of stage factories: their arguments and their results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self, TypedDict, TypeVar, Unpack, cast

from ...codecs.values.flat import FlatInterface, flat_interface
from ...protos.json_checks import UNLIMITED, JsonLimits
from ...telemetry.access import AccessLines
from ...types import InferenceRequest
from ...types.forms import InputsForm
from ..call import Handler
from ..caller import Caller
from ..checks import Checks, checks_of, most_rows_of
from ..execution.base import Execution
from ..facets import Facets
from ..server_parts import ServerParts
from ..slots import Slots

if TYPE_CHECKING:
    from ...functions.app import App
    from ...functions.middleware import Middleware
    from ...settings import ModelSettings, Settings
    from ...telemetry.metrics import Meters
    from ...telemetry.model_meters import ModelMeters
    from ..edges import CallEdges
    from ..turns import Turns
    from .live import Live
    from .store import Store

F = TypeVar("F")
T = TypeVar("T")
Text = TypeVar("Text")


ChooseVersion = Callable[[Callable[[str], bool], Caller], str | None]
"""Chooses a version for a caller, of those that are ready; None for the default."""


class Marks(Protocol):
    """Headers that mark the requests and responses of a model."""

    def add_to(self, request: InferenceRequest, model: str) -> None:
        """Add headers to a request that has its id."""

    def headers(self, model: str, id: str | None, written: Callable[[str], Text]) -> list[tuple[Text, Text]]:
        """The headers of a response with this id; `written` converts a text to the type of the transport."""


class StageChanges(TypedDict, total=False):
    """What a stage may change of a model, in addition to its handler."""

    form: None
    """None if the stage reads tensors."""
    refuse: Callable[[str], None] | None
    """Refuses a call for the queue before its request is parsed; None if the stage must see refused calls."""
    marks: Marks | None
    """Headers of its requests and responses."""
    choose: ChooseVersion | None
    """Chooses the version for calls without one."""
    at_retirement: tuple[Callable[[], None], ...]
    """Called after the model's last call, before it is unloaded: the earlier ones and those of the stage."""


class StagedModel(Protocol):
    """A model and its stages so far."""

    @property
    def settings(self) -> "ModelSettings": ...

    @property
    def meters(self) -> "ModelMeters": ...

    @property
    def handler(self) -> Handler:
        """The outermost stage so far."""

    @property
    def at_retirement(self) -> tuple[Callable[[], None], ...]:
        """Called after the model's last call, before it is unloaded."""

    def facet(self, kind: type[F]) -> F | None:
        """What a plug-in knows of the model, by its type; None if it knows nothing."""

    def around(self, handler: Handler, **changes: Unpack[StageChanges]) -> Self:
        """A copy with this stage around the others, and with these changes."""


class StageContext(Protocol):
    """What the models of a server share."""

    @property
    def settings(self) -> "Settings": ...

    @property
    def meters(self) -> "Meters": ...

    @property
    def turns(self) -> "type[Turns] | None":
        """The class of the turns of each model; None for the first to come."""

    def of(self, make: Callable[[ServerParts], T]) -> T:
        """What `make` makes of the parts of this server, once."""


@dataclass(frozen=True)
class Shared(ServerParts):
    store: "Store | None" = None
    """The contents of the response cache; None where the settings turn it off."""
    middlewares: "tuple[Middleware, ...]" = ()
    """Functions around every call of every model, the first outermost."""
    lines: AccessLines = field(default_factory=AccessLines)
    """Where the records of the access log go."""
    turns: "type[Turns] | None" = None
    """The class of the turns of each model; None for the first to come."""
    stages: "tuple[StageFactory, ...]" = ()
    """Those around each model, from the inside out."""
    facets: Facets = field(default_factory=lambda: Facets(strict=False))
    """What plug-ins make for each model."""
    edges: "CallEdges | None" = None
    """Which models call others; None where there are no other models."""
    shares_responses: bool = False
    """Whether all clients share cached responses; otherwise each principal has its own."""


@dataclass(frozen=True)
class Pipeline:
    """One model and its stages so far. A factory returns a copy with what it adds."""

    execution: Execution
    meters: "ModelMeters"
    app: "App | None"
    """The app of the model's function, as this process has imported it."""
    checks: Checks
    facets: Mapping[type, object]
    """What plug-ins know of the model, by type."""
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

    def facet(self, kind: type[F]) -> F | None:
        """What a plug-in knows of the model, by its type or one that this derives from; None if it knows nothing."""
        return cast("F | None", self.facets.get(kind))

    @property
    def takes_any(self) -> bool:
        """Whether requests may hold objects beyond the protocol's texts and numbers."""
        return self.execution.strictness == "off"

    def around(self, handler: Handler, **changes: Unpack[StageChanges]) -> Self:
        """A copy with this stage around the others, and with these changes."""
        return replace(self, handler=handler, **changes)

    @classmethod
    def of(
        cls,
        execution: Execution,
        meters: "ModelMeters",
        limits: JsonLimits,
        facets: Mapping[type, object],
        app: "App | None" = None,
    ) -> Self:
        """A model without stages."""
        return cls(
            execution,
            meters,
            app,
            checks_of(execution.signature, execution.strictness, most_rows_of(execution.settings)),
            facets,
            flat_interface(execution.signature, limits.values),
            execution.form,
            execution,
            execution.slots,
            limits,
        )


StageFactory = Callable[[Pipeline, Shared], StagedModel]
"""Puts a stage around a model's handler; returns the pipeline as it is if the stage is off for this model."""
