"""Meters of the executions of one model."""

from collections.abc import Iterable
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily

SIZES = 64
"""Batch sizes of one model that are told apart. Clients choose them, so there must be a bound."""

OTHER = 0
"""Stands for every further batch size."""


class ComputeMeters:
    """How often the model ran to a good end, for how long, and with how many rows."""

    __slots__ = ("inferences", "sizes")

    def __init__(self, count: int = 0, seconds: float = 0.0) -> None:
        """Begin with so many executions of one row each."""
        self.inferences = count
        """Rows of all executions."""
        self.sizes: dict[int, list[float]] = {1: [count, seconds]} if count else {}
        """Executions and their seconds, by rows."""

    def executed(self, rows: int, began: float) -> None:
        """The model has run with so many rows."""
        found = self.sizes.get(rows)
        if found is None:
            found = self.sizes.setdefault(rows if len(self.sizes) < SIZES else OTHER, [0, 0.0])
        self.inferences += rows
        found[0] += 1
        found[1] += perf_counter() - began


def collect(found: Iterable[tuple[list[str], ComputeMeters]]) -> Iterable[Metric]:
    """The families of these models' meters, each with the model's name and version."""
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
