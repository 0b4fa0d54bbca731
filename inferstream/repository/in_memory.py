"""A repository of settings that a program holds already."""

from collections.abc import Sequence

from ..errors import ModelNotFound
from ..settings import ModelSettings
from .base import ModelRepository, Versions


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
