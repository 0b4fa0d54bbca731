"""Which model's code is running."""

from contextlib import AbstractContextManager

from inferstream.settings import ModelSettings
from inferstream.telemetry import context
from inferstream.telemetry.context import model_name_var, model_version_var

__all__ = ["model_context", "model_name_var", "model_version_var"]


def model_context(model_settings: ModelSettings) -> AbstractContextManager[None]:
    """Code inside the block runs as the code of this model."""
    return context.model_context(model_settings.name, model_settings.version)
