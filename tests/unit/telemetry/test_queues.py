"""Meters of a queue, told from one process to another."""

from inferstream.telemetry.stages import QueueMeters


def test_what_is_drained_there_and_added_here_comes_to_the_same() -> None:
    there, here, totals = QueueMeters(), QueueMeters(), QueueMeters()
    assert there.drain() is None
    for seconds, expired in ((0.002, True), (3.0, False), (0.0, False)):
        for meters in (there, totals):
            meters.waits.observe(seconds)
            meters.left(expired)
        changes = there.drain()
        assert changes is not None
        here.add(changes)
        assert there.drain() is None
    assert (here.expired, here.cancelled) == (totals.expired, totals.cancelled) == (1, 2)
    assert here.waits.buckets() == totals.waits.buckets()
    assert here.waits.total == totals.waits.total
