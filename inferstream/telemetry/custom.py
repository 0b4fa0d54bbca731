"""Metrics of model code, created by `inferstream.register` and recorded by `inferstream.log`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from .context import model_var

if TYPE_CHECKING:
    from prometheus_client import Histogram
    from prometheus_client.core import Metric


class Sink(Protocol):
    """Stores the values in another process."""

    def register(self, name: str, description: str) -> None: ...

    def log(self, model: str, version: str, values: dict[str, float]) -> None: ...


class CustomMetrics:
    """Histograms that model code registers and records, labelled with the model."""

    def __init__(self) -> None:
        self._histograms: dict[str, Histogram] = {}
        self.sink: Sink | None = None
        """Set in a worker, so that the server process stores the values, which must outlive the worker."""

    def register(self, name: str, description: str) -> "Histogram":
        """Return the histogram with this name, which is created on first use."""
        if name not in self._histograms:
            from prometheus_client import Histogram  # imported lazily: few workers need it

            self._histograms[name] = Histogram(
                name, description, labelnames=["model_name", "model_version"], registry=None
            )
            if self.sink is not None:
                self.sink.register(name, description)
        return self._histograms[name]

    def get(self, name: str) -> "Histogram | None":
        return self._histograms.get(name)

    def log(self, **values: float) -> None:
        """Record one value per metric for the running model: a number or an array of one element.

        Raises RuntimeError outside of model code, and TypeError or ValueError for other values.
        """
        model, version = model_var.get()
        if not model:
            raise RuntimeError("metrics can only be logged by a model's own code")
        self.observe(model, version, values)

    def observe(self, model: str, version: str, values: dict[str, float]) -> None:
        histograms = {name: self.register(name, f"Custom metric {name}") for name in values}
        numbers = {name: _number(name, value) for name, value in values.items()}
        if self.sink is not None:
            self.sink.log(model, version, numbers)
            return
        for name, histogram in histograms.items():
            histogram.labels(model_name=model, model_version=version).observe(numbers[name])

    def collect(self) -> "Iterable[Metric]":
        for histogram in self._histograms.values():
            yield from histogram.collect()


def _number(name: str, value: Any) -> float:
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError) as error:
        raise type(error)(f'metric "{name}" takes a number: {error}') from None


CUSTOM = CustomMetrics()
"""The metrics of all model code in this process."""

log = CUSTOM.log
register = CUSTOM.register
