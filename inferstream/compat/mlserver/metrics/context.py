"""Metrics of model code's own, and their labels."""

from typing import TYPE_CHECKING

from inferstream.telemetry import custom
from inferstream.telemetry.context import model_name_var, model_version_var

from .errors import InvalidModelContext

if TYPE_CHECKING:
    from prometheus_client import Histogram

SELDON_MODEL_NAME_LABEL = "model_name"
SELDON_MODEL_VERSION_LABEL = "model_version"


def register(name: str, description: str) -> "Histogram":
    """The histogram of this name, made on first use."""
    return custom.register(name, description)


def log(**metrics: float) -> None:
    """Record one value per metric for the model whose code is running. Raises InvalidModelContext."""
    if not model_name_var.get():
        raise InvalidModelContext
    custom.log(**metrics)


__all__ = [
    "SELDON_MODEL_NAME_LABEL",
    "SELDON_MODEL_VERSION_LABEL",
    "log",
    "model_name_var",
    "model_version_var",
    "register",
]
