"""Workers that share an environment."""

from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class InferencePool(Replaced):
    """Workers that share an environment."""

    instead = WORKERS


__all__ = ["InferencePool"]
