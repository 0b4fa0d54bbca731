"""Meters of the queue of one model."""

from .histogram import Histogram
from .meter_set import MeterSet, counter, gauge, histogram

DROPPED = ("inferstream_queue_dropped", "Calls refused by the queue or ended in it")


class QueueMeters(MeterSet):
    """Waiting calls, their waits, and calls that left before their turn."""

    depth: int = gauge("inferstream_queue_depth", "Calls that wait for their turn")
    active: int = gauge("inferstream_calls_active", "Calls that no longer wait")
    """Set at a scrape."""
    waits: Histogram = histogram("inferstream_queue_wait_seconds", "Seconds waited by calls that had to wait")
    full: int = counter(*DROPPED, by=("reason",), fixed="full")
    expired: int = counter(*DROPPED, by=("reason",), fixed="expired")
    cancelled: int = counter(*DROPPED, by=("reason",), fixed="cancelled")

    def left(self, expired: bool) -> None:
        """Count a call that ended before its model began: its deadline passed, or its caller left."""
        if expired:
            self.expired += 1
        else:
            self.cancelled += 1
