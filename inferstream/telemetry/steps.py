"""Meters of the steps of one model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Self

from .histogram import COUNTS, SECONDS, Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class StepChanges(NamedTuple):
    """What has happened since the last look: changes of the gauges, and histograms of that time alone."""

    active: int
    waiting: int
    sizes: list[int]
    states: float
    durations: list[int]
    seconds: float


class StepMeters:
    """How many streams advance or wait for a place, how many were in each step, and how long it took."""

    def __init__(self) -> None:
        self.active = 0
        self.waiting = 0
        self.sizes = Histogram(COUNTS)
        self.durations = Histogram(SECONDS)
        self._drained = (0, 0)

    def stepped(self, states: int, seconds: float) -> None:
        """One step over so many states has taken so many seconds."""
        self.sizes.observe(states)
        self.durations.observe(seconds)

    def drain(self) -> StepChanges | None:
        """What has happened since this was last asked, for meters elsewhere; None if nothing has."""
        gauges = (self.active, self.waiting)
        sizes, durations = self.sizes, self.durations
        if gauges == self._drained and not any(sizes.counts):
            return None
        active, waiting = self._drained
        self._drained = gauges
        self.sizes, self.durations = Histogram(COUNTS), Histogram(SECONDS)
        return StepChanges(
            self.active - active,
            self.waiting - waiting,
            sizes.counts,
            sizes.total,
            durations.counts,
            durations.total,
        )

    def add(self, changes: StepChanges) -> None:
        """Count what has happened elsewhere."""
        self.active += changes.active
        self.waiting += changes.waiting
        self.sizes.add(changes.sizes, changes.states)
        self.durations.add(changes.durations, changes.seconds)

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> "Iterable[Metric]":
        """The families of these models' meters, each with the model's name and version."""
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
        for labels, meters in found:
            active.add_metric(labels, meters.active)
            waiting.add_metric(labels, meters.waiting)
            sizes.add_metric(labels, meters.sizes.buckets(), meters.sizes.total)
            seconds.add_metric(labels, meters.durations.buckets(), meters.durations.total)
        return (active, waiting, sizes, seconds)
