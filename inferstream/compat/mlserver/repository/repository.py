"""Where models are found."""

from inferstream.repository import FolderRepository, ModelRepository
from inferstream.settings import MODEL_SETTINGS_FILE

DEFAULT_MODEL_SETTINGS_FILENAME = MODEL_SETTINGS_FILE
SchemalessModelRepository = FolderRepository

__all__ = ["DEFAULT_MODEL_SETTINGS_FILENAME", "ModelRepository", "SchemalessModelRepository"]
