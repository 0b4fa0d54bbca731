"""A queue of waiting calls, ordered by priority and age."""

from collections import OrderedDict
from typing import Generic, TypeVar

from .priority import HIGHEST, LOWEST

Waiter = TypeVar("Waiter")


class Queue(Generic[Waiter]):
    """Each step down in priority counts as `aging` seconds of later arrival.

    A call overtakes less urgent calls that arrived up to so many seconds earlier. The least urgent call still gets its
    turn: no call that arrives after this head start overtakes it.
    """

    def __init__(self, aging: float) -> None:
        self._aging = aging
        self._lanes: list[OrderedDict[Waiter, float]] = [OrderedDict() for _ in range(LOWEST + 1)]
        self.length = 0
        """Waiting calls, for callers that ask so often that `len` is too slow."""

    def __len__(self) -> int:
        return self.length

    def add(self, turn: Waiter, priority: int, now: float) -> None:
        self._lanes[priority][turn] = now + self._aging * max(priority, HIGHEST)
        self.length += 1

    def remove(self, turn: Waiter, priority: int) -> None:
        if self._lanes[priority].pop(turn, None) is not None:
            self.length -= 1

    def pop(self) -> Waiter:
        lane = min((lane for lane in self._lanes if lane), key=_first)
        self.length -= 1
        return lane.popitem(last=False)[0]


def _first(lane: OrderedDict[Waiter, float]) -> float:
    return next(iter(lane.values()))
