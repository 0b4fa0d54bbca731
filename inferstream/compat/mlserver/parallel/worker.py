"""One worker process."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class Worker(Replaced):
    """One worker process."""

    instead = WORKERS


__getattr__ = stand_ins(__name__)

__all__ = ["Worker"]
