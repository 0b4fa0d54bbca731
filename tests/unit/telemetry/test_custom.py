"""Histograms of model code, labelled with the model that feeds them."""

import pytest

from inferstream.telemetry.context import model_context
from inferstream.telemetry.custom import CustomMetrics


def counts(metrics: CustomMetrics) -> dict[tuple[str, str, str], float]:
    """Observations by the metric, the model and its version."""
    return {
        (family.name, sample.labels["model_name"], sample.labels["model_version"]): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name.endswith("_count")
    }


def test_value_is_labelled_with_the_running_model() -> None:
    metrics = CustomMetrics()
    for model, version in (("a", "1"), ("a", "1"), ("b", None)):
        with model_context(model, version):
            metrics.log(depth=2)
    assert counts(metrics) == {("depth", "a", "1"): 2, ("depth", "b", ""): 1}


def test_metric_is_registered_once_with_its_first_description() -> None:
    metrics = CustomMetrics()
    first = metrics.register("depth", "How deep")
    assert metrics.register("depth", "Another text") is first is metrics.get("depth")
    assert [family.documentation for family in metrics.collect()] == ["How deep"]
    assert metrics.get("width") is None


def test_only_model_code_may_log_metrics() -> None:
    metrics = CustomMetrics()
    with pytest.raises(RuntimeError, match="can only be logged by a model's own code"):
        metrics.log(depth=1)
    assert metrics.get("depth") is None


class Sink:
    """Keeps what a worker tells its server."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def register(self, name: str, description: str) -> None:
        self.told.append(("registered", name, description))

    def log(self, model: str, version: str, values: dict[str, float]) -> None:
        self.told.append(("logged", model, version, values))


def test_worker_sends_metrics_to_the_server() -> None:
    metrics, sink = CustomMetrics(), Sink()
    metrics.sink = sink
    metrics.register("depth", "How deep")
    with model_context("m", "2"):
        metrics.log(depth=3, width=True)
    assert sink.told == [
        ("registered", "depth", "How deep"),
        ("registered", "width", "Custom metric width"),
        ("logged", "m", "2", {"depth": 3.0, "width": 1.0}),
    ]
    assert counts(metrics) == {}


def test_non_numeric_value_is_not_sent() -> None:
    metrics, sink = CustomMetrics(), Sink()
    metrics.sink = sink
    with model_context("m", None), pytest.raises(ValueError, match="deep"):
        metrics.log(depth="deep")  # type: ignore[arg-type]
    assert [told[0] for told in sink.told] == ["registered"]
