"""Meters of the executions of one model."""

from collections.abc import Iterable
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily

SIZES = 64
"""Distinct batch sizes for one model. Clients choose sizes, so there must be a bound."""

OTHER = 0
"""Stands for every further batch size."""


class ComputeMeters:
    """Successful executions of a model, with their seconds and rows."""

    __slots__ = ("inferences", "sizes")

    def __init__(self, count: int = 0, seconds: float = 0.0) -> None:
        self.inferences = count
        """Rows of all executions."""
        self.sizes: dict[int, list[float]] = {1: [count, seconds]} if count else {}
        """Executions and their seconds, by rows."""

    def executed(self, rows: int, began: float) -> None:
        found = self.sizes.get(rows)
        if found is None:
            found = self.sizes.setdefault(rows if len(self.sizes) < SIZES else OTHER, [0, 0.0])
        self.inferences += rows
        found[0] += 1
        found[1] += perf_counter() - began


def collect(found: Iterable[tuple[list[str], ComputeMeters]]) -> Iterable[Metric]:
    names = ["model", "version"]
    inferences = CounterMetricFamily("inferstream_inferences", "Rows that models have run with", labels=names)
    seconds = SummaryMetricFamily(
        "inferstream_compute_seconds", "Seconds per execution of a model", labels=[*names, "batch_size"]
    )
    for labels, meters in found:
        inferences.add_metric(labels, meters.inferences)
        for size, (count, total) in sorted(meters.sizes.items()):
            seconds.add_metric([*labels, str(size) if size else "other"], int(count), total)
    return (inferences, seconds)
