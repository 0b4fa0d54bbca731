"""`Slots`, the concurrency limit of a model, and `Queue`, a priority queue for waiting calls."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from .call import HIGHEST, LOWEST, Call


class Slots:
    """The number of calls that may run concurrently. It can change while the model is being served."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._watchers: list[Callable[[int], None]] = []

    def watch(self, resized: Callable[[int], None]) -> None:
        """Register a callback for changes. It is called with the new number."""
        self._watchers.append(resized)

    def resize(self, count: int) -> None:
        if count != self.count:
            self.count = count
            for resized in self._watchers:
                resized(count)

    def derive(self, derive: Callable[[int], int]) -> Self:
        """Create slots whose number is always `derive(self.count)`."""
        derived = type(self)(derive(self.count))
        self.watch(lambda count: derived.resize(derive(count)))
        return derived


Waiter = TypeVar("Waiter")
Value = TypeVar("Value")


class Queue(Generic[Waiter]):
    """A priority queue with aging: one priority level is worth `aging` seconds of waiting time.

    A call overtakes calls of the next lower priority only if they arrived at most `aging` seconds before it.
    Therefore, no call starves.
    """

    def __init__(self, aging: float) -> None:
        self._aging = aging
        self._lanes: list[OrderedDict[Waiter, float]] = [OrderedDict() for _ in range(LOWEST + 1)]
        self.length = 0
        """Number of waiting calls. Hot paths read this attribute because it is faster than `len`."""

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
