"""Meters that one process counts and another adds to its own."""

import pytest

from inferstream.telemetry.meter_set import (
    COUNTS,
    SECONDS,
    TOKENS,
    Bounds,
    Changes,
    Histogram,
    MeterSet,
    counter,
    gauge,
)
from inferstream.telemetry.metrics import Meters
from inferstream.telemetry.stages import QueueMeters


class Doors(MeterSet):
    open: int = gauge("doors_open", "Doors open")
    slammed: int = counter("doors_slammed", "Doors slammed")


def test_only_changes_are_sent() -> None:
    doors = Doors()
    assert doors.drain() is None
    doors.open, doors.slammed = 3, 1
    assert doors.drain() == Changes([3, 1], [])
    assert doors.drain() is None
    doors.open = 1
    assert doors.drain() == Changes([-2, 0], [])
    assert (doors.open, doors.slammed) == (1, 1)


def test_ended_process_leaves_counters_and_removes_gauges() -> None:
    doors = Doors()
    doors.add(Changes([3, 1], []))
    doors.add(Changes([4, 1], []))
    ended = Doors()
    ended.add(Changes([3, 1], []))
    doors.take_back(ended)
    assert (doors.open, doors.slammed) == (4, 2)


def test_drained_histogram_restarts_at_zero() -> None:
    meters = QueueMeters()
    meters.waits.observe(3.0)
    first = meters.drain()
    assert first is not None
    assert first.histograms[0][1] == 3.0
    meters.waits.observe(1.0)
    second = meters.drain()
    assert second is not None
    assert second.histograms[0][1] == 1.0
    assert sum(first.histograms[0][0]) == sum(second.histograms[0][0]) == 1


def test_value_is_counted_in_the_first_bucket_that_fits() -> None:
    histogram = Histogram((1, 2.5))
    for value in (0, 1, 1.1, 2.5, 2.6, 100):
        histogram.observe(value)
    assert histogram.buckets() == [("1", 2.0), ("2.5", 4.0), ("+Inf", 6.0)]
    assert histogram.total == 107.2


def test_added_histograms_equal_direct_observations() -> None:
    one, other, both = Histogram(COUNTS), Histogram(COUNTS), Histogram(COUNTS)
    for histogram, value in ((one, 3), (other, 1025)):
        histogram.observe(value)
        both.observe(value)
    one.add(other.counts, other.total)
    assert one.buckets() == both.buckets()
    assert one.total == both.total == 1028


@pytest.mark.parametrize("bounds", [SECONDS, COUNTS, TOKENS])
def test_bucket_bounds_ascend_without_exponents(bounds: Bounds) -> None:
    assert sorted(set(bounds)) == list(bounds)
    assert not any("e" in bound for bound, _ in Histogram(bounds).buckets())


def test_short_stream_intervals_are_distinguished() -> None:
    meters = Meters()
    gaps = meters.of("m", None).streams.gaps
    for seconds in (0.00005, 0.0004, 0.0009):
        gaps.observe(seconds)
    text = meters.exposition().decode()
    for bound, count in (("0.0001", 1), ("0.0005", 2), ("0.001", 3)):
        labels = f'le="{bound}",model="m",version=""'
        assert f"inferstream_time_between_items_seconds_bucket{{{labels}}} {count}.0" in text
