"""The number of calls that may run at once, which may change."""

from inferstream.dataplane.slots import Slots


def test_watchers_learn_each_new_number_and_no_other() -> None:
    slots, seen = Slots(1), []
    slots.watch(seen.append)
    for count in (1, 4, 4, 2):
        slots.resize(count)
    assert (seen, slots.count) == ([4, 2], 2)


def test_slots_that_follow_from_others() -> None:
    slots = Slots(1)
    doubled = slots.through(lambda count: 2 * count)
    seen: list[int] = []
    doubled.watch(seen.append)
    assert doubled.count == 2
    slots.resize(5)
    assert (doubled.count, seen) == (10, [10])
