"""Where models are found."""

from typing import Any

from .repository import DEFAULT_MODEL_SETTINGS_FILENAME, ModelRepository, SchemalessModelRepository

__all__ = [
    "DEFAULT_MODEL_SETTINGS_FILENAME",
    "ModelRepository",
    "ModelRepositoryFactory",
    "SchemalessModelRepository",
]


def __getattr__(name: str) -> Any:
    if name == "ModelRepositoryFactory":
        from .factory import ModelRepositoryFactory  # late: models need no web framework

        return ModelRepositoryFactory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
