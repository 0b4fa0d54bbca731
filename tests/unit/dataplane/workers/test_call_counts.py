"""What front ends know of each other's calls in each worker."""

import os
from collections.abc import Iterator

import pytest

from inferstream.dataplane.workers.call_counts import MAX_COUNT, ROWS, WorkerLoads, create_loads


@pytest.fixture
def both() -> Iterator[tuple[WorkerLoads, WorkerLoads]]:
    descriptor = create_loads(2)
    yield WorkerLoads(descriptor, 0, 2), WorkerLoads(descriptor, 1, 2)
    os.close(descriptor)


def test_each_front_end_sees_all_calls(both: tuple[WorkerLoads, WorkerLoads]) -> None:
    one, other = (loads.of(7) for loads in both)
    one.note(3)
    other.note(1)
    assert one.total == other.total == 4
    one.note(0)
    assert other.total == 1
    assert both[0].of(8).total == 0


def test_calls_of_ended_front_end_are_removed(both: tuple[WorkerLoads, WorkerLoads]) -> None:
    supervisor, front_end = both
    for worker in (1, ROWS - 1):
        supervisor.of(worker).note(2)
        front_end.of(worker).note(3)
    supervisor.forget(1)
    assert [supervisor.of(worker).total for worker in (1, ROWS - 1)] == [2, 2]


def test_new_worker_in_reused_slot_starts_at_zero(
    both: tuple[WorkerLoads, WorkerLoads],
) -> None:
    supervisor, front_end = both
    front_end.of(1).note(3)
    assert supervisor.begin(1 + ROWS).total == 0


def test_load_count_saturates_at_its_maximum(both: tuple[WorkerLoads, WorkerLoads]) -> None:
    both[0].of(1).note(MAX_COUNT + 5)
    assert both[1].of(1).total == MAX_COUNT
