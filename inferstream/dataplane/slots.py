"""How many calls of a model may run at once."""

from collections.abc import Callable
from typing import Self


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
