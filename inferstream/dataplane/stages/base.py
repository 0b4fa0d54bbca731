"""`Pipeline`: a model and its stages. Also the interfaces through which plug-ins add stages."""

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
from ..checks import Checks, choose_checks, max_batch_size
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
"""Chooses a version for a caller. The first argument tests if a version is ready.

Returns None for the default version.
"""


class Marks(Protocol):
    """Headers that are added to a model's requests and responses."""

    def add_to(self, request: InferenceRequest, model: str) -> None:
        """Add headers to a request, which already has an id."""

    def headers(self, model: str, id: str | None, written: Callable[[str], Text]) -> list[tuple[Text, Text]]:
        """Return the headers of the response with this id. `written` converts strings to the transport's type."""


class StageChanges(TypedDict, total=False):
    """The properties of a pipeline that a stage can replace, in addition to the handler."""

    form: None
    """None if the stage reads tensors."""
    refuse: Callable[[str], None] | None
    """Rejects a call before parsing if the queue is full. None if the stage must see rejected calls."""
    marks: Marks | None
    """Headers of the model's requests and responses."""
    choose: ChooseVersion | None
    """Chooses the version for calls without one."""
    at_retirement: tuple[Callable[[], None], ...]
    """Callbacks that run between the model's last call and its unloading. Append to the existing ones."""


class StagedModel(Protocol):
    """A model and the stages added so far."""

    @property
    def settings(self) -> "ModelSettings": ...

    @property
    def meters(self) -> "ModelMeters": ...

    @property
    def handler(self) -> Handler:
        """The outermost stage so far."""

    @property
    def has_workers(self) -> bool:
        """Whether the model runs in worker processes, and so not in this one."""

    @property
    def at_retirement(self) -> tuple[Callable[[], None], ...]:
        """Callbacks that run after the model's last call and before it is unloaded."""

    def facet(self, kind: type[F]) -> F | None:
        """Return the facet of this type, or None."""

    def around(self, handler: Handler, **changes: Unpack[StageChanges]) -> Self:
        """Return a copy with `handler` as the outermost stage and these changes."""


class StageContext(Protocol):
    """Objects that all models of a server share."""

    @property
    def settings(self) -> "Settings": ...

    @property
    def meters(self) -> "Meters": ...

    @property
    def turns(self) -> "type[Turns] | None":
        """The scheduling policy of the queues, or None for first come, first served."""

    def of(self, make: Callable[[ServerParts], T]) -> T:
        """Return `make(parts)`, cached per server."""


@dataclass(frozen=True)
class Shared(ServerParts):
    store: "Store | None" = None
    """The contents of the response cache. None if the settings disable it."""
    middlewares: "tuple[Middleware, ...]" = ()
    """Middleware around every call of every model, outermost first."""
    lines: AccessLines = field(default_factory=AccessLines)
    """The sink of the access log."""
    turns: "type[Turns] | None" = None
    """The scheduling policy of the queues, or None for first come, first served."""
    stages: "tuple[StageFactory, ...]" = ()
    """The factories for all stages, from the innermost to the outermost."""
    facets: Facets = field(default_factory=lambda: Facets(strict=False))
    """Computes the facets of each model."""
    edges: "CallEdges | None" = None
    """The graph of models that call other models. None if this process has a single model."""
    shares_responses: bool = False
    """Whether all clients share cached responses. If not, each principal has a separate cache."""


@dataclass(frozen=True)
class Pipeline:
    """A model and the stages added so far. Stage factories return a modified copy."""

    execution: Execution
    meters: "ModelMeters"
    app: "App | None"
    """The app of the model's function, as imported by this process."""
    checks: Checks
    facets: Mapping[type, object]
    """Facets that plug-ins computed for the model, by type."""
    flat: FlatInterface | None
    """Converts flat JSON objects to requests. None if the inputs are unknown."""
    form: InputsForm | None
    """The form of requests that do not need tensors. None if a stage or the model reads tensors."""
    handler: Handler
    """The outermost stage so far."""
    slots: Slots
    """The number of calls that the handler runs concurrently."""
    limits: JsonLimits = UNLIMITED
    """Limits on the JSON, BYTES elements and list items of a request."""
    refuse: Callable[[str], None] | None = None
    """Rejects a call when the queue is full, before its request is parsed.

    None if an outer stage must see rejected calls or can serve calls without the queue.
    """
    live: "Live | None" = None
    """The calls in progress."""
    marks: Marks | None = None
    """Headers to add to requests and responses, in addition to the ones that clients and the model set."""
    choose: ChooseVersion | None = None
    """Chooses the version for calls without one, if this is the default version."""
    at_retirement: tuple[Callable[[], None], ...] = ()
    """Callbacks that run after the model's last call and before it is unloaded."""

    @property
    def settings(self) -> "ModelSettings":
        return self.execution.settings

    @property
    def has_workers(self) -> bool:
        return self.execution.has_workers

    def facet(self, kind: type[F]) -> F | None:
        """Return the facet of this type or of a subclass, or None."""
        return cast("F | None", self.facets.get(kind))

    @property
    def takes_any(self) -> bool:
        """Whether requests may contain objects other than the strings and numbers of the protocol."""
        return self.execution.strictness == "off"

    def around(self, handler: Handler, **changes: Unpack[StageChanges]) -> Self:
        """Return a copy with `handler` as the outermost stage and these changes."""
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
        """Create a pipeline without stages."""
        return cls(
            execution,
            meters,
            app,
            choose_checks(execution.signature, execution.strictness, max_batch_size(execution.settings)),
            facets,
            flat_interface(execution.signature, limits.values),
            execution.form,
            execution,
            execution.slots,
            limits,
        )


StageFactory = Callable[[Pipeline, Shared], StagedModel]
"""Adds a stage around a model's handler. Returns the pipeline unchanged if the stage does not apply."""
