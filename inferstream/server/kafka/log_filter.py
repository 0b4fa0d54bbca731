"""Keeps the client library's log readable: while a cluster is away it repeats itself dozens of times a second."""

import logging
from time import monotonic

EVERY = 30.0
"""Seconds between two records of the same kind."""


class Sparse(logging.Filter):
    """Lets one record of a kind pass, then none for `EVERY` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = f"{record.name} {record.msg}"
        now = monotonic()
        if now - self._passed.get(kind, -EVERY) < EVERY:
            return False
        self._passed[kind] = now
        return True


def quieten(library: str) -> None:
    """Make every logger of `library` sparse."""
    sparse = Sparse()
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == library:
            logging.getLogger(name).addFilter(sparse)
