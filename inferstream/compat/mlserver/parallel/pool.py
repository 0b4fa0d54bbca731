"""Workers that share an environment."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class InferencePool(Replaced):
    """Workers that share an environment."""

    instead = WORKERS


__getattr__ = stand_ins(__name__)

__all__ = ["InferencePool"]
