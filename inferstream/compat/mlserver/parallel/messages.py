"""What goes between server and workers."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class ModelRequestMessage(Replaced):
    """A call for a worker."""

    instead = WORKERS


class ModelResponseMessage(Replaced):
    """What came of it."""

    instead = WORKERS


class ModelUpdateMessage(Replaced):
    """A model to load or unload."""

    instead = WORKERS


__getattr__ = stand_ins(__name__)

__all__ = ["ModelRequestMessage", "ModelResponseMessage", "ModelUpdateMessage"]
