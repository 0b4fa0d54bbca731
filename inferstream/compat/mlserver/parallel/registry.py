"""The pools of a server."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class InferencePoolRegistry(Replaced):
    """The pools of a server."""

    instead = WORKERS


__getattr__ = stand_ins(__name__)

__all__ = ["InferencePoolRegistry"]
