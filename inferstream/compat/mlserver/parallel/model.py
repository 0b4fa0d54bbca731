"""A model that lives in workers."""

from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class ParallelModel(Replaced):
    """A model that lives in workers."""

    instead = WORKERS


__all__ = ["ParallelModel"]
