"""A model that lives in workers."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class ParallelModel(Replaced):
    """A model that lives in workers."""

    instead = WORKERS


__getattr__ = stand_ins(__name__)

__all__ = ["ParallelModel"]
