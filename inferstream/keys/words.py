"""The words of a row: what a principal has used of its limits."""

WORDS = 128
"""Numbers of a row that all processes change."""

REQUESTS, BYTES, SLOT, MINUTE, DAY, TODAY = range(6)
FIRST = 6
"""The first of the parts of a minute."""

SLOT_NANOSECONDS = 500_000_000
"""One part of the window in which the tokens of a minute are counted."""

SLOTS = 122
"""Parts of the window: a minute, the part in progress, and one in which tokens of a lease may wait for use."""

DAY_SECONDS = 86_400

ENTRIES = 2**20
"""Principals whose daily tokens are kept without a row."""

_WAYS = 16
"""Entries among which that of a principal is."""

_DAY, _TOKENS, _DIGEST = range(3)
_FIELDS = 3

DAY_WORDS = ENTRIES * _FIELDS
"""Words of `DayTotals`: 24 MiB; unused pages take no memory."""


def is_idle(words: memoryview, now: int) -> bool:
    """Return whether a new row would admit the same calls, except for the tokens of the day."""
    over = now // SLOT_NANOSECONDS - words[SLOT] >= SLOTS
    return words[REQUESTS] <= now and words[BYTES] <= now and (over or words[MINUTE] <= 0)


class DayTotals:
    """The daily tokens of principals whose rows were given to others, by digests of their names."""

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def keep(self, digest: int, row: memoryview, wall: float) -> bool:
        """Keep the tokens of a row that is to be forgotten. False if there is no room for them."""
        day = row[DAY]
        if row[TODAY] <= 0 or day < wall // DAY_SECONDS:
            return True
        start, entries = self._entries(digest)
        places = [each for each in range(0, len(entries), _FIELDS) if entries[each + _DIGEST] == digest]
        places += [each for each in range(0, len(entries), _FIELDS) if entries[each + _DAY] < day]
        if not places:
            return False
        at = start + places[0]
        self._words[at + _DAY] = 0  # last is the day: a killed process leaves a free entry
        self._words[at + _DIGEST] = digest
        self._words[at + _TOKENS] = row[TODAY]
        self._words[at + _DAY] = day
        return True

    def restore(self, digest: int, row: memoryview, wall: float) -> None:
        """Give a new row the tokens of the day that were kept."""
        start, entries = self._entries(digest)
        for each in range(0, len(entries), _FIELDS):
            day = entries[each + _DAY]
            if entries[each + _DIGEST] == digest and day >= wall // DAY_SECONDS:
                row[DAY], row[TODAY] = day, entries[each + _TOKENS]
                self._words[start + each + _DAY] = 0

    def _entries(self, digest: int) -> tuple[int, list[int]]:
        start = digest % (ENTRIES // _WAYS) * _WAYS * _FIELDS
        return start, self._words[start : start + _WAYS * _FIELDS].tolist()
