"""What a model repository is: a place that lists models and finds them by name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import ModelNotFound
from ..settings import ModelSettings


class BrokenModel(NamedTuple):
    """A model that is there and cannot be served; `reason` is fit for a client.

    `version` is the one that its settings named when they could be read last; `source` is their path.
    """

    name: str
    reason: str
    version: str | None = None
    source: str = ""


Versions = list[ModelSettings]  # named here because a method called `list` hides the type inside the class
BrokenModels = list[BrokenModel]


class ModelRepository(ABC):
    """Subclass to keep models elsewhere, and name the class in `model_repository_implementation`."""

    @abstractmethod
    async def list(self) -> Versions:
        """The settings of every version of every model."""

    @abstractmethod
    async def find(self, name: str) -> Versions:
        """The settings of every version of one model. Raises ModelNotFound, InvalidSettings."""

    async def broken(self) -> BrokenModels:
        """Models whose settings the last `list` could not use, with the reason; none unless the repository can tell."""
        return []


class InMemoryRepository(ModelRepository):
    """Exactly these models."""

    def __init__(self, models: Sequence[ModelSettings]) -> None:
        self._models = [*models]

    async def list(self) -> Versions:
        return self._models

    async def find(self, name: str) -> Versions:
        found = [settings for settings in self._models if settings.name == name]
        if not found:
            raise ModelNotFound(name)
        return found
