"""Where gathering does harm: code of a model holds the event loop, and what was gathered waits for it."""

HELD = 0.001
"""Seconds after which an item of a stream has kept those before it waiting."""

APART = 10.0
"""Seconds for which nothing is gathered after that."""

LATE, PUNCTUAL, MOST = 2, -1, 6
"""What each time counts, and the sum at which gathering ends: three times late in a row, or nearly."""


class Lateness:
    """Whether to gather, learned from what was late."""

    __slots__ = ("_apart_until", "_sum")

    def __init__(self) -> None:
        self._sum = 0
        self._apart_until = 0.0

    def apart(self, now: float) -> bool:
        """Whether everything is to leave at once. `now` is of the clock of all calls of this object."""
        return now < self._apart_until

    def late(self, now: float) -> None:
        self._sum += LATE
        if self._sum >= MOST:
            self._sum, self._apart_until = 0, now + APART

    def punctual(self) -> None:
        if self._sum:
            self._sum += PUNCTUAL
