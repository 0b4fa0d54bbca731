"""The repository that the settings name."""

from inferstream import Settings
from inferstream.repository import ModelRepository
from inferstream.server.server import repository_of


class ModelRepositoryFactory:
    """Makes repositories."""

    @staticmethod
    def resolve_model_repository(settings: Settings) -> ModelRepository:
        """The repository of a server with these settings. Raises InvalidSettings."""
        return repository_of(settings)


__all__ = ["ModelRepositoryFactory"]
