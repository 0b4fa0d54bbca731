"""Histograms of how many: calls in a queue, requests in a batch."""

from bisect import bisect_left

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Upper bounds."""


class Counts:
    """A histogram of numbers of things; one bisect per observation."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0

    def observe(self, count: int) -> None:
        self.counts[bisect_left(BUCKETS, count)] += 1
        self.total += count

    def add(self, counts: list[int], total: int) -> None:
        """Count what another histogram of these bounds has."""
        self.counts = [own + other for own, other in zip(self.counts, counts, strict=True)]
        self.total += total

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as the exposition format wants them."""
        found, running = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            running += count
            found.append((bound, float(running)))
        return found
