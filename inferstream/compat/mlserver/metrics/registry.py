"""The metrics that model code has registered."""

from functools import cache
from typing import TYPE_CHECKING, Any

from inferstream.telemetry.custom import CUSTOM

from .errors import MetricNotFound

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Histogram


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

    def register(self, collector: Any) -> None:
        """Add a collector of model code's own to those that the server shows."""
        import prometheus_client  # late: models start without it

        prometheus_client.REGISTRY.register(collector)

    def __getattr__(self, name: str) -> Any:
        return getattr(_collected(), name)

    def __contains__(self, metric_name: str) -> bool:
        return self.exists(metric_name)


@cache
def _collected() -> "CollectorRegistry":
    """The same metrics as prometheus_client has them: `collect`, `get_sample_value` and the like."""
    from prometheus_client import CollectorRegistry  # late: models start without it

    registry = CollectorRegistry()
    registry.register(CUSTOM)
    return registry


REGISTRY = MetricsRegistry()

__all__ = ["REGISTRY", "MetricsRegistry"]
