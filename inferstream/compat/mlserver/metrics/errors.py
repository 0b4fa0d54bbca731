"""Errors of metrics."""

from ..errors import MLServerError


class InvalidModelContext(MLServerError):
    """A metric was logged outside of a model's code."""

    def __init__(self) -> None:
        super().__init__("Metrics can only be registered and logged by a model's own code", 500)


class MetricNotFound(MLServerError):
    """Nobody has registered a metric of this name."""

    def __init__(self, metric_name: str, collector: object = None) -> None:
        super().__init__(f"No metric found with name '{metric_name}'", 500)


__all__ = ["InvalidModelContext", "MetricNotFound"]
