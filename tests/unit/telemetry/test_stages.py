"""Meters of queues and steps."""

from inferstream.telemetry.stages import QueueMeters, StepMeters


def test_drained_and_added_stage_meters_are_equal() -> None:
    there, here, totals = QueueMeters(), QueueMeters(), QueueMeters()
    assert there.drain() is None
    for seconds, expired in ((0.002, True), (3.0, False), (0.0, False)):
        for meters in (there, totals):
            meters.waits.observe(seconds)
            meters.count_early_exit(expired)
        changes = there.drain()
        assert changes is not None
        here.add(changes)
        assert there.drain() is None
    assert (here.expired, here.cancelled) == (totals.expired, totals.cancelled) == (1, 2)
    assert here.waits.buckets() == totals.waits.buckets()
    assert here.waits.total == totals.waits.total


def test_drained_and_added_step_meters_are_equal() -> None:
    there, here = StepMeters(), StepMeters()
    assert there.drain() is None
    totals = StepMeters()
    for states, seconds in ((1, 0.002), (32, 0.2), (2, 0.0)):
        for meters in (there, totals):
            meters.active = states
            meters.count_step(states, seconds)
        here.add(there.drain())
        assert there.drain() is None
    there.active, there.waiting = 0, 3
    here.add(there.drain())
    assert (here.active, here.waiting) == (0, 3)
    assert here.sizes.buckets() == totals.sizes.buckets()
    assert here.durations.buckets() == totals.durations.buckets()
    assert (here.sizes.total, here.durations.total) == (35, 0.202)
