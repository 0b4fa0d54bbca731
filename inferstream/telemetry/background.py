"""Writers in threads of their own, behind bounded queues. A fault stops nothing, and is logged once."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

MOST = 16_384
"""Records that wait. Further ones are lost and counted."""

_PAUSE = 0.05
"""Seconds in which records gather for a write, because a write for each would cost more than its call."""

Record = TypeVar("Record")

_writers: "WeakSet[BackgroundWriter[Any]]" = WeakSet()


LAST = 2.0
"""Seconds that each writer gets for its last records, where a process ends at once."""


def finish(seconds: float = LAST) -> None:
    """Have every writer of the process write what waits, for at most so many seconds each.

    For a process that ends at once: what is registered at its exit does not run then.
    """
    for writer in [*_writers]:
        BackgroundWriter.close(writer, seconds)


class BackgroundWriter(ABC, Generic[Record]):
    """Writes records to a target, in a thread of its own."""

    name: ClassVar[str]
    """What people call what is written."""
    logger: ClassVar[logging.Logger]
    batch: ClassVar[int] = 1024
    """Records of one write."""
    every: ClassVar[float | None] = None
    """Seconds after which the thread looks for `unfinished` records at the latest; None for never."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._records: SimpleQueue[Record | None] = SimpleQueue()
        """None after the last one."""
        self._refused = 0
        """Records without room, ever; only who puts records counts them."""
        self._reported = 0
        self._lost_records = 0
        """Records that were not written since the last one that was; the thread alone counts them."""
        self._fault = ""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()
        _writers.add(self)

    def put(self, record: Record) -> bool:
        """Write a record soon, if there is room for it. It never waits."""
        if self._records.qsize() >= MOST:
            self._refused += 1
            return False
        self._records.put(record)
        return True

    def close(self, seconds: float | None = None) -> None:
        """Write what is waiting, and end. It waits for the target, at most so many seconds."""
        self._records.put(None)
        self._thread.join(seconds)

    def unfinished(self) -> Sequence[Record]:
        """Records that have something to write, and are not put yet."""
        return ()

    def batches(self, records: list[Record]) -> Iterator[list[Record]]:
        """Divide records into those of one write each."""
        for start in range(0, len(records), self.batch):
            yield records[start : start + self.batch]

    @abstractmethod
    def write(self, batch: list[Record]) -> None:
        """Write records. It raises nothing: a fault calls `lose`, and success `settle`."""

    def lost(self, refused: int) -> int:
        """Records that were lost since the last one that was written, with those that were `refused` ever."""
        return self._lost_records + refused - self._reported

    def lose(self, records: int, fault: str) -> None:
        """Count records that are lost, and log the first fault."""
        self._lost_records += records
        if not self._fault:
            self._fault = fault
            self.logger.error("%s: the %s is not written: %s", self._target, self.name, fault)

    def settle(self, refused: int) -> None:
        """Note that records are written, and that those that were `refused` ever are told of."""
        lost = self.lost(refused)
        self._lost_records = 0
        self._reported = refused
        if self._fault:
            self._fault = ""
            self.logger.warning(
                "%s: the %s is written again; records that are lost: %d", self._target, self.name, lost
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
            records = [*(record for record in waiting if record is not None), *self.unfinished()]
            for batch in self.batches(records):
                self.write(batch)
