"""What a model's calls come to, by how they ended."""

import pytest

from inferstream.telemetry.meter_set import Buckets
from inferstream.telemetry.model_meters import ModelMeters
from inferstream.telemetry.stages import CacheMeters


@pytest.fixture(name="meters")
def _meters() -> ModelMeters:
    meters = ModelMeters("m", None)
    for end, seconds in (("success", 1.0), ("success", 2.0), ("internal", 4.0), ("cancelled", 8.0)):
        meters.durations[end].observe(seconds)
    return meters


def value(meters: ModelMeters, name: str) -> object:
    return meters.series(name)[()]


def test_successes_and_failures_are_told_apart(meters: ModelMeters) -> None:
    assert (value(meters, "success"), value(meters, "failure")) == (2, 2)
    assert (value(meters, "duration"), value(meters, "failed")) == ((4, 15.0), 12.0)
    assert meters.series("calls") == {("success",): 2, ("internal",): 1, ("cancelled",): 1}
    assert meters.labels == ["m", ""]


def test_each_successful_call_is_an_execution_without_its_wait(meters: ModelMeters) -> None:
    meters.waited = 0.5
    executions = meters.executions()
    assert (executions.inferences, executions.sizes) == (2, {1: [2, 2.5]})


def test_executions_that_are_counted_apart_are_no_calls(meters: ModelMeters) -> None:
    computing = meters.computing()
    assert computing.sizes == {1: [2, 3.0]}, "those before it stay"
    meters.durations["success"].observe(100.0)
    assert meters.executions() is computing
    assert computing.inferences == 2


def test_a_stage_has_one_set_of_meters(meters: ModelMeters) -> None:
    cache = meters.of(CacheMeters)
    cache.hits = 3
    assert meters.of(CacheMeters).hits == 3
    assert meters.stages[CacheMeters] is cache


def test_a_call_that_leaves_before_it_is_opened_is_cancelled_in_the_queue(meters: ModelMeters) -> None:
    meters.left_unopened()
    assert (meters.queue.cancelled, meters.queue.expired) == (1, 0)
    assert meters.ends["cancelled"] == 2


def test_the_load_has_a_series_where_it_is_measured(meters: ModelMeters) -> None:
    assert meters.series("load") == {}
    meters.load_seconds = 0.25
    assert value(meters, "load") == 0.25


def test_the_sum_of_all_ends_has_the_bounds_of_each() -> None:
    meters = ModelMeters("m", "1", Buckets(requests=(1.0, 2.0)))
    meters.durations["success"].observe(0.5)
    meters.durations["internal"].observe(1.5)
    assert meters.every.buckets() == [("1.0", 1.0), ("2.0", 2.0), ("+Inf", 2.0)]
    assert meters.won.buckets() == [("1.0", 1.0), ("2.0", 1.0), ("+Inf", 1.0)]
