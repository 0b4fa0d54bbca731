"""What waits for calls to have their turn, in the order in which they should run."""

from collections import OrderedDict
from typing import Generic, TypeVar

from .priority import HIGHEST, LOWEST

Waiter = TypeVar("Waiter")


class Queue(Generic[Waiter]):
    """Each step down in priority counts as if a call had come `aging` seconds later.

    So a more urgent call overtakes those that came up to so many seconds before it, and the least urgent
    one still has its turn: nobody who comes later than its head start can overtake it any more.
    """

    def __init__(self, aging: float) -> None:
        self._aging = aging
        self._lanes: list[OrderedDict[Waiter, float]] = [OrderedDict() for _ in range(LOWEST + 1)]
        self.length = 0
        """Calls that wait, for those who ask so often that `len` is dear."""

    def __len__(self) -> int:
        return self.length

    def add(self, turn: Waiter, priority: int, now: float) -> None:
        """Put a call in its place; one without a priority is as urgent as can be."""
        self._lanes[priority][turn] = now + self._aging * max(priority, HIGHEST)
        self.length += 1

    def remove(self, turn: Waiter, priority: int) -> None:
        """Take out a call that waits no longer, if it is still here."""
        if self._lanes[priority].pop(turn, None) is not None:
            self.length -= 1

    def pop(self) -> Waiter:
        """The call whose turn it is."""
        lane = min((lane for lane in self._lanes if lane), key=_first)
        self.length -= 1
        return lane.popitem(last=False)[0]


def _first(lane: OrderedDict[Waiter, float]) -> float:
    return next(iter(lane.values()))
