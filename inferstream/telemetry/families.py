"""Prometheus metric families of meter sets, and their sums over several processes."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from .meter_set import MeterSet

FAMILIES: dict[str, Any] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "summary": SummaryMetricFamily,
    "histogram": HistogramMetricFamily,
}


def families(
    kind: type[MeterSet], sets: Iterable[tuple[Sequence[str], MeterSet]], prefix: str = "rest_server"
) -> Iterable[Metric]:
    """Return the families of these sets. Each set is paired with its label values, in the declared order."""
    made: dict[str, Any] = {}
    for meter in kind.declared.values():
        if meter.name not in made:
            names = kind.label_names if meter.labels is None else meter.labels
            name = meter.name.replace("rest_server", prefix, 1)
            made[meter.name] = FAMILIES[meter.kind](name, meter.help, labels=[*names, *meter.by])
    for labels, meters in sets:
        for attribute, meter in kind.declared.items():
            own = labels if meter.labels is None else labels[: len(meter.labels)]
            for key, value in meters.series(attribute).items():
                _add(made[meter.name], [*own, *key], value)
    return made.values()


def _add(family: Any, labels: list[str], value: Any) -> None:
    if family.type == "histogram":
        family.add_metric(labels, value.buckets(), value.total)
    elif family.type == "summary":
        family.add_metric(labels, *value)
    else:
        family.add_metric(labels, value)


class Family(NamedTuple):
    """The samples of one metric in one process, each with the name and labels of its series."""

    name: str
    documentation: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


def to_families(metrics: Iterable[Metric]) -> list[Family]:
    """Convert metrics to a form that another process can add up."""
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
    """Adds up series with the same name and labels, which is valid for all meters of inferstream."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}

    def add(self, families: Iterable[Family], *, over: bool = False) -> None:
        """Add the values of a process.

        Set `over` if the process has exited, to skip its gauges.
        """
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
