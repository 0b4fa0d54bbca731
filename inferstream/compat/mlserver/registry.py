"""The models that are loaded."""

from collections.abc import Awaitable, Callable

from inferstream import MLModel, ModelSettings
from inferstream.compat.replaced import Replaced

ModelInitialiser = Callable[[ModelSettings], MLModel]
ModelRegistryHook = Callable[[MLModel], Awaitable[MLModel]]
ModelReloadHook = Callable[[MLModel, MLModel], Awaitable[MLModel]]


class MultiModelRegistry(Replaced):
    """The loaded models of a server."""

    instead = "mlserver.MLServer keeps the models"


class SingleModelRegistry(Replaced):
    """The loaded versions of one model."""

    instead = "mlserver.MLServer keeps the models"


def model_initialiser(model_settings: ModelSettings) -> MLModel:
    """A model, not loaded, of the class its settings name."""
    model: MLModel = model_settings.implementation(model_settings)
    return model


__all__ = [
    "ModelInitialiser",
    "ModelRegistryHook",
    "ModelReloadHook",
    "MultiModelRegistry",
    "SingleModelRegistry",
    "model_initialiser",
]
