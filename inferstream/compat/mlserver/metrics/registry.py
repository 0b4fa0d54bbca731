"""The metrics that model code has registered."""

from typing import TYPE_CHECKING

from inferstream.telemetry.custom import CUSTOM

from .errors import MetricNotFound

if TYPE_CHECKING:
    from prometheus_client import Histogram


class MetricsRegistry:
    """Metrics by name."""

    def exists(self, metric_name: str) -> bool:
        """Whether somebody has registered it."""
        return CUSTOM.get(metric_name) is not None

    def get(self, metric_name: str) -> "Histogram":
        """The metric. Raises MetricNotFound."""
        found = CUSTOM.get(metric_name)
        if found is None:
            raise MetricNotFound(metric_name)
        return found

    def __getitem__(self, metric_name: str) -> "Histogram":
        return self.get(metric_name)

    def __contains__(self, metric_name: str) -> bool:
        return self.exists(metric_name)


REGISTRY = MetricsRegistry()

__all__ = ["REGISTRY", "MetricsRegistry"]
