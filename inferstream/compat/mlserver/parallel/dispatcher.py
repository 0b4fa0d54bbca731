"""What gives requests to workers."""

from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class Dispatcher(Replaced):
    """Gives requests to workers."""

    instead = WORKERS


__all__ = ["Dispatcher"]
