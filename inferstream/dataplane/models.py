"""`ServerModels`: the interface of the dataplane for plug-ins."""

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
        """Whether every expected model is loaded and the server is not draining."""

    def admit(
        self, model: str, version: str | None, caller: Caller, action: Action = Action.INFER
    ) -> Admission:
        """Admit a caller to a model.

        Raises PermissionDenied, ModelNotFound, ModelNotReady, Draining or Overloaded, and NotLoaded if the
        model loads on demand.
        """

    def of(self, make: "Callable[[ServerParts], Result]") -> Result:
        """Return `make(parts)`, cached per server."""

    async def when_loaded(self, ask: Callable[[], Result], deadline: float | None = None) -> Result:
        """Return `ask()`. Whenever it raises NotLoaded, wait until the model is loaded and retry.

        `deadline` is on the event loop's clock. Raises DeadlineExceeded.
        """

    async def cancel(self, id: str, caller: Caller) -> int:
        """Cancel the calls with this id and the caller's credentials, and return their number.

        Raises NotFound if there are none.
        """

    def log_rejection(
        self, caller: Caller, operation: str, model: str, error: BaseException, began: float | None = None
    ) -> None:
        """Log a request that failed before it became a call."""

    def models(self, caller: Caller) -> list[tuple[str, str | None]]:
        """Return the names and versions of the models that the caller may see."""

    def model_ready(self, name: str, version: str | None = None) -> bool:
        """Whether this model is ready, or loads on demand. Raises ModelNotFound."""

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        """Return the model's metadata. Raises ModelNotFound or ModelNotReady."""

    def described(self, name: str, version: str | None = None) -> "Described":
        """Return the model's properties, for documentation. Raises ModelNotFound or ModelNotReady."""

    def faceted(self, kind: type[F], caller: Caller) -> "list[Faceted[F]]":
        """Return all versions of loaded models that have a facet of this type and that the caller may see."""

    def loading(self) -> tuple[str, str | None] | None:
        """Return the name and version of a model that is currently loading, or None."""
