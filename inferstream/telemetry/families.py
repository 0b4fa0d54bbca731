"""Prometheus' families of the meters that sets declare."""

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

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
    """The families of these sets' meters, each set with the values of its labels, in the declared order."""
    made: dict[str, Any] = {}
    for meter in kind.declared.values():
        if meter.name not in made:
            names = kind.label_names if meter.labels is None else meter.labels
            name = meter.name.replace("rest_server", prefix, 1)
            made[meter.name] = FAMILIES[meter.kind](name, meter.help, labels=[*names, *meter.by])
    for labels, meters in sets:
        for attribute, meter in kind.declared.items():
            value = getattr(meters, attribute) if meter.read is None else meter.read(meters)
            own = labels if meter.labels is None else labels[: len(meter.labels)]
            if meter.fixed is not None:
                value = {meter.fixed: value}
            if not isinstance(value, dict):
                value = {} if value is None else {(): value}
            for key, each in value.items():
                _add(made[meter.name], [*own, *((key,) if isinstance(key, str) else key)], each)
    return made.values()


def _add(family: Any, labels: list[str], value: Any) -> None:
    if family.type == "histogram":
        family.add_metric(labels, value.buckets(), value.total)
    elif family.type == "summary":
        family.add_metric(labels, *value)
    else:
        family.add_metric(labels, value)


class Single(MeterSet, Collector):
    """Meters of a subject that there is once, without labels."""

    label_names = ()

    def collect(self) -> Iterable[Metric]:
        return families(type(self), [((), self)])
