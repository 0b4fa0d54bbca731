"""The other front ends of this server, as a registry sees them."""

from typing import Protocol

from ..settings import ModelSettings
from .execution.base import Execution


class Elsewhere(Protocol):
    """The same model in the other front ends of this server."""

    async def serve(self) -> None:
        """Serve it there, in place of the same name and version."""

    async def withdraw(self) -> None:
        """Send it no more calls there."""

    async def released(self) -> None:
        """Wait until no other front end uses it."""


class OtherFrontEnds(Protocol):
    """The other front ends, which must serve the same models."""

    @property
    def ready(self) -> bool:
        """Whether all of them have started."""

    async def add(self, settings: ModelSettings, execution: Execution) -> Elsewhere:
        """Load a model there, from the settings that `execution` was loaded from. Raises ModelLoadFailed."""

    async def agree(self) -> None:
        """Wait until they know the states of models that do not serve."""
