"""Interfaces to the other front ends of a server, for the registry."""

from typing import Protocol

from ..settings import ModelSettings
from .execution.base import Execution


class ModelInOtherFrontEnds(Protocol):
    """A model in the other front ends."""

    async def serve(self) -> None:
        """Start serving it, in place of the same name and version."""

    async def withdraw(self) -> None:
        """Stop sending it calls."""

    async def wait_for_release(self) -> None:
        """Wait until no other front end uses it."""


class OtherFrontEnds(Protocol):
    """The other front ends, which must serve the same models."""

    @property
    def ready(self) -> bool:
        """Whether all of them have started."""

    async def add(self, settings: ModelSettings, execution: Execution) -> ModelInOtherFrontEnds:
        """Load a model in the other front ends, from the settings of `execution`. Raises ModelLoadFailed."""

    async def sync_states(self) -> None:
        """Wait until they have received the states of models that are not serving."""
