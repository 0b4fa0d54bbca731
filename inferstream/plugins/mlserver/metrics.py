"""Metric registries with access by name."""

from collections.abc import Iterator
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Metric

from .telemetry import REGISTERED, MetricNotFound


class MetricsRegistry(CollectorRegistry):
    """A registry with access to metrics by name."""

    def exists(self, metric_name: str) -> bool:
        """Whether the metric is registered."""
        return self._metric(metric_name) is not None

    def get(self, metric_name: str) -> Any:
        """Return the metric with this name. Raises MetricNotFound."""
        metric = self._metric(metric_name)
        if metric is None:
            raise MetricNotFound(metric_name)
        return metric

    __contains__, __getitem__ = exists, get

    def _metric(self, metric_name: str) -> Any:
        return self._names_to_collectors.get(metric_name)


class RegisteredMetrics:
    """Collects the metrics of `register` and `log`. The server exports these metrics itself."""

    def collect(self) -> Iterator[Metric]:
        for histogram in [*REGISTERED.values()]:
            yield from histogram.collect()


class ServedRegistry(MetricsRegistry):
    """Metrics of model code that the server exports, from `register` and `log` or from prometheus_client."""

    def __init__(self) -> None:
        super().__init__()
        self._of_models = RegisteredMetrics()
        super().register(self._of_models)

    def register(self, collector: Any) -> None:
        prometheus_client.REGISTRY.register(collector)
        super().register(collector)

    def unregister(self, collector: Any) -> None:
        if collector is not self._of_models:
            prometheus_client.REGISTRY.unregister(collector)
            super().unregister(collector)

    def _metric(self, metric_name: str) -> Any:
        return REGISTERED.get(metric_name) or super()._metric(metric_name)


REGISTRY = ServedRegistry()
