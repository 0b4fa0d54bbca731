"""Meters of the executions of one model."""

from time import perf_counter

from .meter_set import MeterSet, counter, summary

SIZES = 64
"""Distinct batch sizes for one model. Clients choose sizes, so there must be a bound."""

OTHER = 0
"""Stands for every further batch size."""


class ComputeMeters(MeterSet):
    """Successful executions of a model, with their seconds and rows."""

    inferences: int = counter("inferstream_inferences", "Rows that models have run with")
    seconds = summary(
        "inferstream_compute_seconds",
        "Seconds per execution of a model",
        by=("batch_size",),
        read=lambda self: {
            str(size) if size else "other": (int(count), total)
            for size, (count, total) in sorted(self.sizes.items())
        },
    )

    def __init__(self, count: int = 0, seconds: float = 0.0) -> None:
        super().__init__()
        self.inferences = count
        self.sizes: dict[int, list[float]] = {1: [count, seconds]} if count else {}
        """Executions and their seconds, by rows."""

    def executed(self, rows: int, began: float) -> None:
        found = self.sizes.get(rows)
        if found is None:
            found = self.sizes.setdefault(rows if len(self.sizes) < SIZES else OTHER, [0, 0.0])
        self.inferences += rows
        found[0] += 1
        found[1] += perf_counter() - began
