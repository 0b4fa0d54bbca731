"""A narrow view of the server for plug-ins: its models, as doors and dialects use them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..types import MetadataModelResponse
from .access import Action, Authority
from .admission import Admission
from .caller import Caller

if TYPE_CHECKING:
    from .dataplane import Described
    from .facets import Faceted
    from .server_parts import ServerParts

Result = TypeVar("Result")
F = TypeVar("F")


class ServerModels(Protocol):
    """The models of the server."""

    access: Authority

    @property
    def ready(self) -> bool:
        """Whether every model that was to load has loaded."""

    def admit(
        self, model: str, version: str | None, caller: Caller, action: Action = Action.INFER
    ) -> Admission:
        """Admit a caller to a model.

        Raises PermissionDenied, ModelNotFound, ModelNotReady, Draining, Overloaded; and NotLoaded.
        """

    def of(self, make: "Callable[[ServerParts], Result]") -> Result:
        """What `make` makes of the parts of this server, once."""

    async def when_loaded(self, ask: Callable[[], Result], deadline: float | None = None) -> Result:
        """`ask()`, after each model that it finds unloaded has loaded. Raises DeadlineExceeded."""

    async def cancel(self, id: str, caller: Caller) -> int:
        """Cancel all calls with this id and these credentials; how many there were. Raises NotFound."""

    def refused(
        self, caller: Caller, operation: str, model: str, error: BaseException, began: float | None = None
    ) -> None:
        """Log a request that ended in an error before it became a call."""

    def models(self, caller: Caller) -> list[tuple[str, str | None]]:
        """Names and versions that the caller may see."""

    def model_ready(self, name: str, version: str | None = None) -> bool:
        """Raises ModelNotFound, ModelNotReady."""

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        """Raises ModelNotFound, ModelNotReady."""

    def described(self, name: str, version: str | None = None) -> "Described":
        """What people are told of a model. Raises ModelNotFound, ModelNotReady."""

    def faceted(self, kind: type[F], caller: Caller) -> "list[Faceted[F]]":
        """Every loaded model that has a facet of this type and may be seen, each version of it."""

    def loading(self) -> tuple[str, str | None] | None:
        """Name and version of a model that loads; None if there is none."""
