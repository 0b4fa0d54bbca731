"""Meters of the steps of one model."""

from .histogram import COUNTS, Histogram
from .meter_set import MeterSet, gauge, histogram


class StepMeters(MeterSet):
    """Streams that advance or wait for a place, the size and seconds of each step, and waits for the first step."""

    active: int = gauge("inferstream_streams_active", "Streams that advance by steps")
    waiting: int = gauge("inferstream_streams_waiting", "Streams that wait for a place among those")
    sizes: Histogram = histogram("inferstream_step_size", "Streams in a step", COUNTS)
    durations: Histogram = histogram("inferstream_step_seconds", "Seconds per step")
    waits: Histogram = histogram(
        "inferstream_step_wait_seconds",
        "Seconds from a stream's arrival at the steps to its first step, its admission included",
    )

    def stepped(self, states: int, seconds: float) -> None:
        self.sizes.observe(states)
        self.durations.observe(seconds)
