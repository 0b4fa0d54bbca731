"""The offset of a partition up to which all messages are done, in whatever order they end."""

from collections import deque


class Offsets:
    """The offsets of one partition since reading began, in the order of arrival."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._next: int | None = None

    def begin(self, offset: int) -> None:
        """Record that the message at `offset` is in progress."""
        self._open.append(offset)

    def end(self, offset: int) -> None:
        """Record that the message at `offset` is done."""
        self._done.add(offset)
        while self._open and self._open[0] in self._done:
            first = self._open.popleft()
            self._done.remove(first)
            self._next = first + 1

    def take(self) -> int | None:
        """The offset at which a restart should read, or None if it has not changed since the last call."""
        found, self._next = self._next, None
        return found
