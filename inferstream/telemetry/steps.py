"""Meters of the steps of one model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from .histogram import COUNTS, SECONDS, Histogram
from .meter_set import MeterSet

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class StepMeters(MeterSet):
    """Streams that advance or wait for a place, the size and seconds of each step, and waits for the first step."""

    gauges = ("active", "waiting")
    histograms = ("sizes", "durations", "waits")

    def __init__(self) -> None:
        self.active = 0
        self.waiting = 0
        self.sizes = Histogram(COUNTS)
        self.durations = Histogram(SECONDS)
        self.waits = Histogram(SECONDS)

    def stepped(self, states: int, seconds: float) -> None:
        self.sizes.observe(states)
        self.durations.observe(seconds)

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> "Iterable[Metric]":
        from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily  # late: not in workers

        names = ["model", "version"]
        active = GaugeMetricFamily(
            "inferstream_streams_active", "Streams that advance by steps", labels=names
        )
        waiting = GaugeMetricFamily(
            "inferstream_streams_waiting", "Streams that wait for a place among those", labels=names
        )
        sizes = HistogramMetricFamily("inferstream_step_size", "Streams in a step", labels=names)
        seconds = HistogramMetricFamily("inferstream_step_seconds", "Seconds per step", labels=names)
        waits = HistogramMetricFamily(
            "inferstream_step_wait_seconds",
            "Seconds from a stream's arrival at the steps to its first step, its admission included",
            labels=names,
        )
        for labels, meters in found:
            active.add_metric(labels, meters.active)
            waiting.add_metric(labels, meters.waiting)
            sizes.add_metric(labels, meters.sizes.buckets(), meters.sizes.total)
            seconds.add_metric(labels, meters.durations.buckets(), meters.durations.total)
            waits.add_metric(labels, meters.waits.buckets(), meters.waits.total)
        return (active, waiting, sizes, seconds, waits)
