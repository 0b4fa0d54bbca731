"""The layout of a counter row, and daily totals of principals without a row."""

WORDS = 128
"""Shared words per row."""

REQUESTS, BYTES, SLOT, MINUTE, DAY, TODAY = range(6)
FIRST = 6
"""Index of the first slot of the token window."""

SLOT_NANOSECONDS = 500_000_000
"""Length of a slot of the token window."""

SLOTS = 122
"""Slots in the window: a minute, the current slot, and one in which leased tokens may wait for use."""

DAY_SECONDS = 86_400

ENTRIES = 2**20
"""Maximum number of principals whose daily tokens are stored without a row."""

_WAYS = 16
"""Associativity: each principal can be in this many entries."""

_DAY, _TOKENS, _DIGEST = range(3)
_FIELDS = 3

DAY_WORDS = ENTRIES * _FIELDS
"""Words of `DayTotals`: 24 MiB. Unused pages use no memory."""


def is_idle(words: memoryview, now: int) -> bool:
    """Whether a row is idle: a new one would admit the same calls, except for the daily tokens."""
    over = now // SLOT_NANOSECONDS - words[SLOT] >= SLOTS
    return words[REQUESTS] <= now and words[BYTES] <= now and (over or words[MINUTE] <= 0)


class DayTotals:
    """The daily tokens of principals whose rows were reassigned, by the digests of their names."""

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def keep(self, digest: int, row: memoryview, wall: float) -> bool:
        """Save the daily tokens of a row that is about to be reassigned.

        Returns False if all entries are taken.
        """
        day = row[DAY]
        if row[TODAY] <= 0 or day < wall // DAY_SECONDS:
            return True
        start, entries = self._entries(digest)
        places = [each for each in range(0, len(entries), _FIELDS) if entries[each + _DIGEST] == digest]
        places += [each for each in range(0, len(entries), _FIELDS) if entries[each + _DAY] < day]
        if not places:
            return False
        at = start + places[0]
        # The day is written last, so that an interrupted write leaves a free entry.
        self._words[at + _DAY] = 0
        self._words[at + _DIGEST] = digest
        self._words[at + _TOKENS] = row[TODAY]
        self._words[at + _DAY] = day
        return True

    def restore(self, digest: int, row: memoryview, wall: float) -> None:
        """Restore the saved daily tokens to a new row."""
        start, entries = self._entries(digest)
        for each in range(0, len(entries), _FIELDS):
            day = entries[each + _DAY]
            if entries[each + _DIGEST] == digest and day >= wall // DAY_SECONDS:
                row[DAY], row[TODAY] = day, entries[each + _TOKENS]
                self._words[start + each + _DAY] = 0

    def _entries(self, digest: int) -> tuple[int, list[int]]:
        start = digest % (ENTRIES // _WAYS) * _WAYS * _FIELDS
        return start, self._words[start : start + _WAYS * _FIELDS].tolist()
