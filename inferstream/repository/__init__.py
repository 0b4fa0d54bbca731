"""Model repositories, and loading of models."""

from .base import BrokenModel, InMemoryRepository, ModelRepository
from .folder import FolderRepository
from .loading import LoadedModel, load_model
from .uri import get_model_uri, to_absolute_path

__all__ = [
    "BrokenModel",
    "FolderRepository",
    "InMemoryRepository",
    "LoadedModel",
    "ModelRepository",
    "get_model_uri",
    "load_model",
    "to_absolute_path",
]
