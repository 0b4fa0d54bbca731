"""What a model's calls come to, by how they ended."""

import asyncio

import pytest

from inferstream.dataplane.stages.metrics import MeteredStream
from inferstream.errors import InferenceFailed, InvalidRequest
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


def test_successes_and_failures_are_separate(meters: ModelMeters) -> None:
    assert (value(meters, "success"), value(meters, "failure")) == (2, 2)
    assert (value(meters, "duration"), value(meters, "failed")) == ((4, 15.0), 12.0)
    assert meters.series("calls") == {("success",): 2, ("internal",): 1, ("cancelled",): 1}
    assert meters.labels == ["m", ""]


def test_successful_call_is_an_execution_without_its_queue_time(meters: ModelMeters) -> None:
    meters.waited = 0.5
    executions = meters.executions()
    assert (executions.inferences, executions.sizes) == (2, {1: [2, 2.5]})


def test_separately_counted_executions_are_not_calls(meters: ModelMeters) -> None:
    computing = meters.count_executions_separately()
    assert computing.sizes == {1: [2, 3.0]}, "those before it stay"
    meters.durations["success"].observe(100.0)
    assert meters.executions() is computing
    assert computing.inferences == 2


def test_stage_has_one_set_of_meters(meters: ModelMeters) -> None:
    cache = meters.of(CacheMeters)
    cache.hits = 3
    assert meters.of(CacheMeters).hits == 3
    assert meters.stages[CacheMeters] is cache


def test_call_leaving_before_start_is_cancelled_in_the_queue(meters: ModelMeters) -> None:
    meters.count_early_end()
    assert (meters.queue.cancelled, meters.queue.expired) == (1, 0)
    assert meters.ends["cancelled"] == 2


def test_load_has_a_series_if_measured(meters: ModelMeters) -> None:
    assert meters.series("load") == {}
    meters.load_seconds = 0.25
    assert value(meters, "load") == 0.25


def test_total_histogram_has_the_bounds_of_each_outcome() -> None:
    meters = ModelMeters("m", "1", Buckets(requests=(1.0, 2.0)))
    meters.durations["success"].observe(0.5)
    meters.durations["internal"].observe(1.5)
    assert meters.every.buckets() == [("1.0", 1.0), ("2.0", 2.0), ("+Inf", 2.0)]
    assert meters.won.buckets() == [("1.0", 1.0), ("2.0", 1.0), ("+Inf", 1.0)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InferenceFailed("Model m failed."), "Model m failed."),
        (OSError("no file /home/me/weights.bin"), "OSError"),
        (InvalidRequest("a number is missing"), None),
        (asyncio.CancelledError(), None),
    ],
)
def test_last_failure_of_call_and_of_stream_has_no_internal_text(
    error: BaseException, text: str | None
) -> None:
    for end in (lambda m: m.count_failure(error, 0.1), lambda m: MeteredStream(m, 0.0, 0.0).end(error)):
        meters = ModelMeters("m", None)
        end(meters)
        assert sum(meters.ends.values()) == 1
        assert (meters.last_failure and meters.last_failure[1:]) == (text and (text, None))


def test_last_failure_has_exception_of_model() -> None:
    meters = ModelMeters("m", None)
    try:
        raise ValueError("no such city")
    except ValueError as error:
        failure = InferenceFailed("Model m failed.")
        failure.__cause__ = error
    meters.count_failure(failure, 0.1)
    assert meters.last_failure is not None
    assert meters.last_failure[1:] == ("Model m failed.", "ValueError: no such city")
