"""The base class of model repositories, and the repository of models in memory."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import InvalidSettings, ModelNotFound
from ..settings import ModelSettings


class BrokenModel(NamedTuple):
    """A model with settings that cannot be used. Clients may read the `reason`.

    `version` comes from the last settings that could be read. `source` is the path of the settings.
    """

    name: str
    reason: str
    version: str | None = None
    source: str = ""


Versions = list[ModelSettings]  # named here because a method called `list` hides the type inside the class
BrokenModels = list[BrokenModel]


class ModelRepository(ABC):
    """Lists models and finds them by name. `model_repository_implementation` names a subclass to use."""

    @abstractmethod
    async def list(self) -> Versions:
        """The settings of every version of every model."""

    async def find(self, name: str) -> Versions:
        """The settings of every version of one model. Raises ModelNotFound, InvalidSettings."""
        versions = [settings for settings in await self.list() if settings.name == name]
        if versions:
            return versions
        for model in await self.broken():
            if model.name == name:
                raise InvalidSettings(f"Model {name} cannot be loaded: {model.reason}")
        raise ModelNotFound(name)

    async def version(self, name: str, version: str | None) -> ModelSettings:
        """The settings of one version, without a fetch of a newer one. Raises ModelNotFound, InvalidSettings."""
        for settings in await self.list():
            if (settings.name, settings.version) == (name, version):
                return settings
        for model in await self.broken():
            if (model.name, model.version) == (name, version):
                raise InvalidSettings(f"Model {name} cannot be loaded: {model.reason}")
        raise ModelNotFound(name, version)

    async def renewed(self) -> Sequence[Path]:
        """Files that differ from those of the last call, after a look at where they come from. The default is none."""
        return ()

    def concerns(self, path: Path) -> bool:
        """Whether a change of this file may change a model, under `--reload`. The default is every file."""
        return True

    async def broken(self) -> BrokenModels:
        """Models with settings that the last `list` could not use. The default is none."""
        return []


class InMemoryRepository(ModelRepository):
    """The repository of settings that a program has in memory."""

    def __init__(self, models: Sequence[ModelSettings]) -> None:
        self._models = [*models]

    async def list(self) -> Versions:
        return self._models
