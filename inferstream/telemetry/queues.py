"""Meters of the queue of one model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .histogram import SECONDS, Histogram
from .meter_set import MeterSet

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class QueueMeters(MeterSet):
    """Waiting calls, their waits, and calls that left before their turn."""

    counters = ("expired", "cancelled")
    histograms = ("waits",)

    def __init__(self) -> None:
        self.depth = 0
        self.waits = Histogram(SECONDS)
        self.full = 0
        self.expired = 0
        self.cancelled = 0

    def left(self, expired: bool) -> None:
        """Count a call that ended before its model began: its deadline passed, or its caller left."""
        if expired:
            self.expired += 1
        else:
            self.cancelled += 1


def collect(found: Iterable[tuple[list[str], int, QueueMeters]]) -> "Iterable[Metric]":
    """Make the families of these models' meters. Each entry has labels, calls in progress and meters."""
    from prometheus_client.core import (  # late: not in workers
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    names = ["model", "version"]
    depth = GaugeMetricFamily("inferstream_queue_depth", "Calls that wait for their turn", labels=names)
    active = GaugeMetricFamily("inferstream_calls_active", "Calls that no longer wait", labels=names)
    waits = HistogramMetricFamily(
        "inferstream_queue_wait_seconds", "Seconds waited by calls that had to wait", labels=names
    )
    dropped = CounterMetricFamily(
        "inferstream_queue_dropped", "Calls refused by the queue or ended in it", labels=[*names, "reason"]
    )
    for labels, in_progress, meters in found:
        depth.add_metric(labels, meters.depth)
        active.add_metric(labels, max(in_progress - meters.depth, 0))
        waits.add_metric(labels, meters.waits.buckets(), meters.waits.total)
        dropped.add_metric([*labels, "full"], meters.full)
        dropped.add_metric([*labels, "expired"], meters.expired)
        dropped.add_metric([*labels, "cancelled"], meters.cancelled)
    return (depth, active, waits, dropped)
