"""One worker process."""

from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class Worker(Replaced):
    """One worker process."""

    instead = WORKERS


__all__ = ["Worker"]
