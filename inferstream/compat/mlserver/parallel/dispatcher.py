"""What gives requests to workers."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced

from .utils import WORKERS

QUEUE_METRIC_NAME = "parallel_request_queue"


class Dispatcher(Replaced):
    """Gives requests to workers."""

    instead = WORKERS


__getattr__ = stand_ins(__name__)

__all__ = ["QUEUE_METRIC_NAME", "Dispatcher"]
