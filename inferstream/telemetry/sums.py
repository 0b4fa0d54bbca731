"""Sums of the meters of several processes."""

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample


class Family(NamedTuple):
    """The numbers of one metric in one process, each with the name and labels of its series."""

    name: str
    documentation: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


def families_of(metrics: Iterable[Metric]) -> list[Family]:
    """The families of these metrics, for another process to add."""
    return [
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            [(sample.name, dict(sample.labels), sample.value) for sample in metric.samples],
        )
        for metric in metrics
    ]


class Sums(Collector):
    """Adds up series with the same name and labels. All our own meters may be added."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}

    def add(self, families: Iterable[Family], *, over: bool = False) -> None:
        """Add the numbers of a process; without gauges if it is `over`."""
        for family in families:
            if over and family.kind == "gauge":
                continue
            self._families.setdefault(family.name, family)
            values = self._values.setdefault(family.name, {})
            for name, labels, value in family.samples:
                series = (name, tuple(labels.items()))
                values[series] = values.get(series, 0.0) + value

    def collect(self) -> Iterable[Metric]:
        for name, family in self._families.items():
            metric = Metric(name, family.documentation, family.kind)
            values = self._values[name].items()
            metric.samples = [Sample(series, dict(labels), value) for (series, labels), value in values]
            yield metric

    def exposition(self) -> bytes:
        return generate_latest(self)
