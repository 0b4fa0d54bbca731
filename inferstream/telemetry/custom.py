"""Metrics of model code's own, made by `inferstream.register` and fed by `inferstream.log`."""

from collections.abc import Iterable

from prometheus_client import Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .context import model_name_var, model_version_var


class CustomMetrics(Collector):
    """Histograms that model code registers and feeds, labelled with the model that does."""

    def __init__(self) -> None:
        self._histograms: dict[str, Histogram] = {}

    def register(self, name: str, description: str) -> Histogram:
        """The histogram of this name, made on first use."""
        if name not in self._histograms:
            self._histograms[name] = Histogram(
                name, description, labelnames=["model_name", "model_version"], registry=None
            )
        return self._histograms[name]

    def log(self, **values: float) -> None:
        """Record one value per metric for the model whose code is running.

        Raises RuntimeError outside of a model's code.
        """
        model = model_name_var.get("")
        if not model:
            raise RuntimeError("metrics can only be logged by a model's own code")
        for name, value in values.items():
            histogram = self.register(name, f"Custom metric {name}")
            histogram.labels(model_name=model, model_version=model_version_var.get("")).observe(value)

    def collect(self) -> Iterable[Metric]:
        for histogram in self._histograms.values():
            yield from histogram.collect()


CUSTOM = CustomMetrics()
"""The one registry that all model code shares."""

log = CUSTOM.log
register = CUSTOM.register
