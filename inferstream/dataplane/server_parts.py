"""`ServerParts`: what the stages and edges of one server have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..settings import Settings
from .peers import Peers

if TYPE_CHECKING:
    from ..telemetry.metrics import Meters
    from ..telemetry.model_meters import ModelMeters
    from .call import Handler
    from .execution.base import Execution
    from .first_calls import ModelKey

T = TypeVar("T")


class ServedVersion(Protocol):
    """One version of a model, as it is served."""

    execution: "Execution"
    meters: "ModelMeters"
    handler: "Handler"
    capacity: int
    """Calls that model code can run at once."""


class ServedModels(Protocol):
    """The models that serve now."""

    def items(self) -> "Sequence[tuple[ModelKey, ServedVersion]]":
        """Each version by name and version."""

    def default(self, name: str) -> ServedVersion | None:
        """The version that serves calls without one."""

    def serving(self, name: str, version: str | None = None) -> ServedVersion:
        """Raises ModelNotFound, ModelNotReady, Draining, NotLoaded."""


@dataclass(frozen=True)
class ServerParts:
    """A server, in each of its processes with ports, as its stages and edges see it."""

    settings: Settings
    meters: "Meters"
    models: ServedModels | None = None
    """None if there are no other models than the one at hand."""
    peers: Peers = field(default_factory=Peers)
    """The other processes with ports."""
    at_stop: list[Callable[[], None]] = field(default_factory=list, init=False, repr=False, compare=False)
    """Called when the server stops, before it waits for its calls."""
    _made: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, make: "Callable[[ServerParts], T]") -> T:
        """What `make` makes of these parts, once for the server."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made
