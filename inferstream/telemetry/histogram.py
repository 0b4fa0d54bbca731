"""Histograms as plain numbers."""

from bisect import bisect_left
from typing import NamedTuple

Bounds = tuple[float, ...]
"""The upper bounds of buckets, ascending; the last bucket has none."""

SECONDS: Bounds = (
    *(0.0001, 0.00025, 0.0005),  # small calls, and streams that make several responses in a millisecond
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

COUNTS: Bounds = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Counts: calls in a queue, requests in a batch."""

TOKENS: Bounds = tuple(4**power for power in range(14))
"""Tokens of a request. OpenTelemetry's convention for `gen_ai.client.token.usage` has these bounds."""


class Buckets(NamedTuple):
    """The bounds of the histograms of seconds that the settings may change."""

    requests: Bounds = SECONDS
    """Calls, HTTP requests and RPCs, from their arrival to their end."""
    first_item: Bounds = SECONDS
    """From a call to the first response of its stream."""
    between_items: Bounds = SECONDS
    """From one response of a stream to the next."""


class Histogram:
    """One bisect per observation, without the lock and the label lookup of prometheus_client."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, counts: list[int], total: float) -> None:
        """Add the counts of another histogram with these bounds."""
        self.counts = [own + other for own, other in zip(self.counts, counts, strict=True)]
        self.total += total

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as in the exposition format."""
        found, running = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            found.append((bound, float(running)))
        return found
