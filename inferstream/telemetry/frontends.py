"""Meters of front ends."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class FrontEndMeters(Collector):
    """How many front ends serve, the first included, and how often another was started or lost."""

    def __init__(self) -> None:
        self.serving = 1
        self.started = 0
        self.lost = 0

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("inferstream_frontends", "Front ends that serve", value=self.serving)
        yield CounterMetricFamily("inferstream_frontends_started", "Further front ends started", self.started)
        yield CounterMetricFamily(
            "inferstream_frontends_lost", "Further front ends that ended early", self.lost
        )
