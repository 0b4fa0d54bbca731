"""Which messages of a partition are done with, however their answers overtake each other."""

from collections import deque


class Offsets:
    """The offsets of one partition from where reading began, in the order they came."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._next: int | None = None

    def begin(self, offset: int) -> None:
        """The message at `offset` is being worked on."""
        self._open.append(offset)

    def end(self, offset: int) -> None:
        """The message at `offset` has been answered."""
        self._done.add(offset)
        while self._open and self._open[0] in self._done:
            first = self._open.popleft()
            self._done.remove(first)
            self._next = first + 1

    def take(self) -> int | None:
        """Where reading should begin after a restart, if that has changed since this was last asked."""
        found, self._next = self._next, None
        return found
