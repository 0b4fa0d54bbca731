"""The number of calls of a model that may run at once, and the queues of those that wait."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from .call import HIGHEST, LOWEST, Call


class Slots:
    """A number of calls that may run at once. It may change while the model serves."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._watchers: list[Callable[[int], None]] = []

    def watch(self, resized: Callable[[int], None]) -> None:
        """Call `resized` with each new number."""
        self._watchers.append(resized)

    def resize(self, count: int) -> None:
        if count != self.count:
            self.count = count
            for resized in self._watchers:
                resized(count)

    def through(self, derive: Callable[[int], int]) -> Self:
        """Slots whose number follows from this one."""
        derived = type(self)(derive(self.count))
        self.watch(lambda count: derived.resize(derive(count)))
        return derived


Waiter = TypeVar("Waiter")
Value = TypeVar("Value")


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

    def add(self, turn: Waiter, call: Call, now: float) -> None:
        priority = call.priority
        self._lanes[priority][turn] = now + self._aging * max(priority, HIGHEST)
        self.length += 1

    def remove(self, turn: Waiter, call: Call) -> None:
        if self._lanes[call.priority].pop(turn, None) is not None:
            self.length -= 1

    def pop(self) -> Waiter:
        lane = min((lane for lane in self._lanes if lane), key=_first)
        self.length -= 1
        return lane.popitem(last=False)[0]


def _first(lane: OrderedDict[Waiter, Value]) -> Value:
    return next(iter(lane.values()))
