"""Background writer threads with bounded queues. A write error never stops the server, and is logged once."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

_PAUSE = 0.05
"""The time in seconds to collect records before a write.

Single writes would cost more than the calls they record.
"""

Record = TypeVar("Record")

_writers: "WeakSet[BackgroundWriter[Any]]" = WeakSet()


LAST = 2.0
"""The time in seconds that each writer has for its last records if the process exits without cleanup."""


def finish(seconds: float = LAST) -> None:
    """Write the waiting records of every writer in the process, for up to `seconds` each.

    Used by processes that exit without running their exit handlers.
    """
    for writer in [*_writers]:
        BackgroundWriter.close(writer, seconds)


class BackgroundWriter(ABC, Generic[Record]):
    """Writes records to a target in a background thread."""

    name: ClassVar[str]
    """The name of the written data, for log messages."""
    logger: ClassVar[logging.Logger]
    capacity: ClassVar[int] = 16_384
    """The maximum number of waiting records. Additional ones are lost and counted."""
    batch: ClassVar[int] = 1024
    """The maximum number of records in one write."""
    every: ClassVar[float | None] = None
    """The maximum interval between calls of `pending_records`, in seconds. None: wait for a queued record."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._records: SimpleQueue[Record | None] = SimpleQueue()
        """The queue of records. None marks the end."""
        self._refused = 0
        """The total number of records rejected because the queue was full.

        Only updated by callers of `put`.
        """
        self._reported = 0
        self._lost_records = 0
        """The number of records lost since the last successful write. Only updated by the thread."""
        self._fault = ""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()
        _writers.add(self)

    def put(self, record: Record) -> bool:
        """Queue a record without blocking. Returns False if the queue is full."""
        if self._records.qsize() >= self.capacity:
            self._refused += 1
            return False
        self._records.put(record)
        return True

    def close(self, seconds: float | None = None) -> None:
        """Write the waiting records and stop. Waits up to `seconds` for the thread to finish."""
        self._records.put(None)
        self._thread.join(seconds)

    def pending_records(self) -> Sequence[Record]:
        """Return records to write that have not been queued yet."""
        return ()

    def batches(self, records: list[Record]) -> Iterator[list[Record]]:
        """Split records into batches that are written at once."""
        for start in range(0, len(records), self.batch):
            yield records[start : start + self.batch]

    @abstractmethod
    def write(self, batch: list[Record]) -> None:
        """Write a batch. Must not raise: call `lose` after an error and `settle` after success."""

    def lost(self, refused: int) -> int:
        """Return the number of records lost since the last successful write.

        `refused` is the total rejected by `put`.
        """
        return self._lost_records + refused - self._reported

    def lose(self, records: int, fault: str) -> None:
        """Count lost records, and log the first error."""
        self._lost_records += records
        if not self._fault:
            self._fault = fault
            self.logger.error("%s: writing the %s failed: %s", self._target, self.name, fault)

    def settle(self, refused: int) -> None:
        """Record a successful write, after which the `refused` records count as reported."""
        lost = self.lost(refused)
        self._lost_records = 0
        self._reported = refused
        if self._fault:
            self._fault = ""
            self.logger.warning(
                "%s: writing the %s works again; records lost: %d", self._target, self.name, lost
            )

    def _run(self) -> None:
        closed = False
        while not closed:
            waiting: list[Record | None] = []
            with suppress(Empty):
                waiting.append(self._records.get(timeout=self.every))
            time.sleep(_PAUSE)
            waiting += [self._records.get() for _ in range(self._records.qsize())]
            closed = None in waiting
            records = [*(record for record in waiting if record is not None), *self.pending_records()]
            for batch in self.batches(records):
                self.write(batch)
