"""The number of calls that may run at once, which may change."""

from inferstream.dataplane.slots import Slots


def test_watchers_see_each_change_once() -> None:
    slots, seen = Slots(1), []
    slots.watch(seen.append)
    for count in (1, 4, 4, 2):
        slots.resize(count)
    assert (seen, slots.count) == ([4, 2], 2)


def test_derived_slots_follow_their_source() -> None:
    slots = Slots(1)
    doubled = slots.derive(lambda count: 2 * count)
    seen: list[int] = []
    doubled.watch(seen.append)
    assert doubled.count == 2
    slots.resize(5)
    assert (doubled.count, seen) == (10, [10])
