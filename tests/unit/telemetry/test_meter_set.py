"""Meters that one process counts and another adds to its own."""

from inferstream.telemetry.meter_set import Changes, MeterSet, counter, gauge
from inferstream.telemetry.stages import QueueMeters


class Doors(MeterSet):
    open: int = gauge("doors_open", "Doors open")
    slammed: int = counter("doors_slammed", "Doors slammed")


def test_only_what_has_changed_since_is_told() -> None:
    doors = Doors()
    assert doors.drain() is None
    doors.open, doors.slammed = 3, 1
    assert doors.drain() == Changes([3, 1], [])
    assert doors.drain() is None
    doors.open = 1
    assert doors.drain() == Changes([-2, 0], [])
    assert (doors.open, doors.slammed) == (1, 1)


def test_a_process_that_has_ended_leaves_what_it_counted_and_takes_what_it_gauged() -> None:
    doors = Doors()
    doors.add(Changes([3, 1], []))
    doors.add(Changes([4, 1], []))
    ended = Doors()
    ended.add(Changes([3, 1], []))
    doors.take_back(ended)
    assert (doors.open, doors.slammed) == (4, 2)


def test_a_histogram_that_is_drained_goes_on_from_nothing() -> None:
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
