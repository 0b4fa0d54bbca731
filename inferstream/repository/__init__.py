"""Where models are found and how they become objects."""

from ..settings.uri import get_model_uri, to_absolute_path
from .base import BrokenModel, ModelRepository
from .folder import FolderRepository
from .given import GivenRepository
from .loading import Awaiting, LoadedModel, load_model

__all__ = [
    "Awaiting",
    "BrokenModel",
    "FolderRepository",
    "GivenRepository",
    "LoadedModel",
    "ModelRepository",
    "get_model_uri",
    "load_model",
    "to_absolute_path",
]
