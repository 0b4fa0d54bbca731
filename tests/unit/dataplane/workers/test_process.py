"""What a process adds to the meters of steps, and takes back when it ends."""

from inferstream.dataplane.workers.frames import Queued, Stepped
from inferstream.dataplane.workers.process import InstanceMeters
from inferstream.telemetry.queues import QueueMeters
from inferstream.telemetry.steps import StepChanges, StepMeters


def changes(active: int, waiting: int) -> StepChanges:
    meters = StepMeters()
    meters.active, meters.waiting = active, waiting
    meters.stepped(2, 0.1)
    found = meters.drain()
    assert found is not None
    return found


def test_a_process_that_ends_takes_its_streams_along_and_leaves_its_counts() -> None:
    meters = StepMeters()
    dying, living = InstanceMeters({1: meters}), InstanceMeters({1: meters})
    dying.came(Stepped(1, changes(3, 2)))
    living.came(Stepped(1, changes(4, 0)))
    dying.came(Stepped(1, changes(-1, 1)))
    assert (meters.active, meters.waiting) == (6, 3)
    dying.gone()
    dying.gone()
    assert (meters.active, meters.waiting) == (4, 0)
    assert meters.sizes.total == 6


def test_steps_of_a_model_that_has_gone_count_nowhere() -> None:
    meters: dict[int, StepMeters] = {1: StepMeters()}
    instance_meters = InstanceMeters(meters)
    instance_meters.came(Stepped(1, changes(3, 2)))
    del meters[1]
    instance_meters.came(Stepped(1, changes(3, 2)))
    instance_meters.gone()
    assert meters == {}


def test_what_waited_in_a_process_counts_for_its_model_which_may_come_later() -> None:
    queues: dict[int, QueueMeters] = {}
    instance_meters = InstanceMeters({}, queues)
    there = QueueMeters()
    there.left(expired=True)
    there.waits.observe(3.0)
    changes = there.drain()
    assert changes is not None
    instance_meters.waited(Queued(1, changes))
    here = queues[1] = QueueMeters()
    instance_meters.waited(Queued(1, changes))
    instance_meters.waited(Queued(2, changes))
    assert (here.expired, here.cancelled, here.waits.total) == (1, 0, 3.0)
