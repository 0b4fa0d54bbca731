"""Metrics as a collector gets them."""

import pytest
from opentelemetry.sdk.metrics.export import Metric

from inferstream.ext.telemetry import Meters
from inferstream.plugins.otel.push import MetricPush


@pytest.fixture(name="meters")
def _meters() -> Meters:
    meters = Meters()
    model = meters.of("m", "2")
    model.durations["success"].observe(0.5)
    model.durations["internal"].observe(2.0)
    model.in_flight = 3
    model.streams.items = 7
    return meters


@pytest.fixture(name="pushed")
def _pushed(meters: Meters) -> dict[str, Metric]:
    return push(meters)


def push(meters: Meters) -> dict[str, Metric]:
    push = MetricPush(meters, "http://127.0.0.1:9", "server", "1", 60.0)
    data = push._data()
    push._exporter.shutdown(timeout_millis=0)
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_metric_has_prometheus_help(meters: Meters, pushed: dict[str, Metric]) -> None:
    assert {metric.name: metric.unit for metric in pushed.values()} == {
        "inferstream.calls": "{call}",
        "inferstream.calls.in_progress": "{call}",
        "inferstream.call.duration": "s",
        "inferstream.stream.items": "{item}",
    }
    scraped = {family.documentation for family in meters.collect()}
    assert {metric.description for metric in pushed.values()} <= scraped


def test_meter_keys_are_labels(pushed: dict[str, Metric]) -> None:
    model = {"model.name": "m", "model.version": "2"}
    calls = {point.attributes["call.end"]: point for point in pushed["inferstream.calls"].data.data_points}
    assert {end: point.value for end, point in calls.items()} == {"success": 1, "internal": 1}
    assert calls["internal"].attributes == {**model, "call.end": "internal"}
    (streamed,) = pushed["inferstream.stream.items"].data.data_points
    assert (streamed.attributes, streamed.value) == (model, 7)


def test_counters_only_increase_and_gauges_vary(pushed: dict[str, Metric]) -> None:
    assert pushed["inferstream.calls"].data.is_monotonic
    assert not pushed["inferstream.calls.in_progress"].data.is_monotonic


def test_histogram_has_bounds_and_sum(pushed: dict[str, Metric]) -> None:
    points = pushed["inferstream.call.duration"].data.data_points
    assert {point.attributes["call.end"]: point.sum for point in points} == {"success": 0.5, "internal": 2.0}
    assert all(len(point.bucket_counts) == len(point.explicit_bounds) + 1 for point in points)
