"""The base class of model repositories, and a repository in memory."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import InvalidSettings, ModelNotFound
from ..settings import ModelSettings


class BrokenModel(NamedTuple):
    """A model with unusable settings. Clients can read the `reason`.

    `version` is from the last settings that could be read. `source` is the path of the settings.
    """

    name: str
    reason: str
    version: str | None = None
    source: str = ""


Versions = list[ModelSettings]  # defined here because a method called `list` hides the type inside the class
BrokenModels = list[BrokenModel]


class ModelRepository(ABC):
    """Lists models and finds them by name.

    The setting `model_repository_implementation` selects a subclass.
    """

    @abstractmethod
    async def list(self) -> Versions:
        """Return the settings of every version of every model."""

    async def find(self, name: str) -> Versions:
        """Return the settings of every version of one model. Raises ModelNotFound or InvalidSettings."""
        versions = [settings for settings in await self.list() if settings.name == name]
        if versions:
            return versions
        for model in await self.broken():
            if model.name == name:
                raise InvalidSettings(f"Model {name} cannot be loaded: {model.reason}")
        raise ModelNotFound(name)

    async def version(self, name: str, version: str | None) -> ModelSettings:
        """Return the settings of one version, without fetching a newer one.

        Raises ModelNotFound or InvalidSettings.
        """
        for settings in await self.list():
            if (settings.name, settings.version) == (name, version):
                return settings
        for model in await self.broken():
            if (model.name, model.version) == (name, version):
                raise InvalidSettings(f"Model {name} cannot be loaded: {model.reason}")
        raise ModelNotFound(name, version)

    async def check_origin(self) -> Sequence[Path]:
        """Check the origin of the files, and return the files that changed since the last call.

        Returns no files by default.
        """
        return ()

    def concerns(self, path: Path) -> bool:
        """Whether a change of this file can affect a model, for `--reload`.

        True for every file by default.
        """
        return True

    async def broken(self) -> BrokenModels:
        """Return the models whose settings the last call of `list` could not use. Empty by default."""
        return []


class InMemoryRepository(ModelRepository):
    """A repository of settings in memory."""

    def __init__(self, models: Sequence[ModelSettings]) -> None:
        self._models = [*models]

    async def list(self) -> Versions:
        return self._models
