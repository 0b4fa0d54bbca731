"""`ServerParts`: objects that the stages and edges of a server share."""

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
    """One version of a model that is being served."""

    execution: "Execution"
    meters: "ModelMeters"
    handler: "Handler"
    capacity: int
    """Number of calls that the model can run concurrently."""


class ServedModels(Protocol):
    """The models that are being served."""

    def items(self) -> "Sequence[tuple[ModelKey, ServedVersion]]":
        """Return all versions, by name and version."""

    def default(self, name: str) -> ServedVersion | None:
        """Return the version that serves calls without a version."""

    def serving(self, name: str, version: str | None = None) -> ServedVersion:
        """Look up a version. Raises ModelNotFound, ModelNotReady, Draining or NotLoaded."""


@dataclass(frozen=True)
class ServerParts:
    """Shared objects of a server process with ports, for stages and edges."""

    settings: Settings
    meters: "Meters"
    models: ServedModels | None = None
    """None if the current model is the only one."""
    peers: Peers = field(default_factory=Peers)
    """The other front-end processes."""
    at_stop: list[Callable[[], None]] = field(default_factory=list, init=False, repr=False, compare=False)
    """Callbacks for shutdown, which run before the server waits for its calls."""
    _made: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, make: "Callable[[ServerParts], T]") -> T:
        """Return `make(self)`, cached per server."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made
