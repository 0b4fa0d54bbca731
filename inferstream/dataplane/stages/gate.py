"""Refuses a request of which nothing is known yet but its model, while that model's queue is full."""

from ...errors import Overloaded
from ...telemetry.metrics import ModelMeters
from .limits import Limits


class Gate:
    """Says what the queue would say once the request is parsed, which costs more than all of a refusal.

    Counts it as the stages do.
    """

    def __init__(self, queue: Limits, meters: ModelMeters) -> None:
        self._queue = queue
        self._meters = meters

    def check(self, model: str) -> None:
        """Raises Overloaded."""
        try:
            self._queue.refuse_if_full(model)
        except Overloaded as refusal:
            self._meters.ended(0.0, refusal.code.value)
            raise
