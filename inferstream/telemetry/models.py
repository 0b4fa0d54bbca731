"""Metrics that model code makes with `prometheus_client`, in this process and in workers."""

from collections.abc import Iterable
from itertools import chain

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from .files import MetricFiles


class ModelMetrics(Collector):
    """The library's default registry, without metrics of the process, and the files of workers."""

    def __init__(self, files: MetricFiles) -> None:
        self._files = files
        standard: tuple[Collector, ...] = (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR)
        self._standard = {metric.name for collector in standard for metric in collector.collect()}

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        here = (metric for metric in REGISTRY.collect() if metric.name not in self._standard)
        for metric in chain(here, self._files.collect()):
            family = families.setdefault(metric.name, metric)
            if family is not metric:
                family.samples = _summed([*family.samples, *metric.samples])
        return families.values()


def _summed(samples: list[Sample]) -> list[Sample]:
    """One sample for each name and labels. A model may run here, and another with the same code in workers."""
    found: dict[object, Sample] = {}
    for sample in samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        before = found.get(key)
        found[key] = sample if before is None else sample._replace(value=before.value + sample.value)
    return list(found.values())
