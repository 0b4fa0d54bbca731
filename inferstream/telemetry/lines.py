"""Files of lines of JSON: appended by a thread, from a bounded queue. A full disk stops nothing, and is logged once."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

MOST = 16_384
"""Records that wait for the disk. Further ones are dropped and counted."""

_PAUSE = 0.05
"""Seconds in which records gather for a write, because a write for each would cost more than its call."""


class Timed(Protocol):
    @property
    def time(self) -> float:
        """Seconds since 1970."""


Record = TypeVar("Record", bound=Timed)


class LineFile(Generic[Record]):
    """Appends records to a file, in a thread of its own.

    Several processes may append to the same file. A file that was moved away is begun again.
    Raises OSError if the file cannot be opened.
    """

    name: ClassVar[str]
    """What people call the file."""
    logger: ClassVar[logging.Logger]
    batch: ClassVar[int] = 1024
    """Records of one write."""
    every: ClassVar[float | None] = None
    """Seconds after which the thread looks for `unfinished` records at the latest; None for never."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._records: SimpleQueue[Record | None] = SimpleQueue()
        """None after the last one."""
        self._refused = 0
        """Records without room, ever; the loop alone counts them."""
        self._reported = 0
        self._lost_records = 0
        """Records that were not written since the last one that was; the thread alone counts them."""
        self._fault = ""
        self._torn = False
        self._descriptor = self._open()
        self._encode = msgspec.json.Encoder().encode
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def put(self, record: Record) -> None:
        """Write a record soon. It never waits."""
        if self._records.qsize() >= MOST:
            self._refused += 1
        else:
            self._records.put(record)

    def close(self) -> None:
        """Write what is waiting, and end. It may wait for the disk."""
        self._records.put(None)
        self._thread.join()
        os.close(self._descriptor)

    def unfinished(self) -> Sequence[Record]:
        """Records that have something to write, and are not put yet."""
        return ()

    def text(self, records: Sequence[Record]) -> bytes:
        """A line for each record. Raises OSError where something beside the lines cannot be written."""
        return b"".join([self._encode(record) + b"\n" for record in records])

    def written(self) -> None:
        """Called after a write."""

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
            for start in range(0, len(records), self.batch):
                self._write(records[start : start + self.batch])

    def _write(self, batch: list[Record]) -> None:
        refused = self._refused
        try:
            self._open_replaced()
            text = self.text(batch)
            if dropped := self._lost_records + refused - self._reported:
                text = self._encode({"time": batch[0].time, "dropped": dropped}) + b"\n" + text
            if self._torn:
                text = b"\n" + text
            written = os.write(self._descriptor, text)
        except OSError as error:
            self._lost(len(batch), error.strerror or str(error))
            return
        except Exception as error:  # of one record; the thread goes on with the next ones
            self._lost(len(batch), f"{type(error).__name__}: {error}")
            return
        if written < len(text):
            self._torn = not text[:written].endswith(b"\n")
            self._lost(min(text[written:].count(b"\n"), len(batch)), "the disk is full")
            return
        self._torn = False
        self._lost_records = 0
        self._reported = refused
        if self._fault:
            self._fault = ""
            self.logger.warning("%s: the %s is written again", self._path, self.name)
        self.written()

    def _lost(self, records: int, fault: str) -> None:
        self._lost_records += records
        if not self._fault:
            self._fault = fault
            self.logger.error("%s: the %s is not written: %s", self._path, self.name, fault)

    def _open(self) -> int:
        return open_private(self._path)

    def _open_replaced(self) -> None:
        """Open the path again if another file, or none, is there now."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self._path), os.fstat(self._descriptor)):
                return
        new = self._open()
        os.close(self._descriptor)
        self._descriptor = new


def open_private(path: str) -> int:
    """Open a file to append to it, which its owner alone may read if it is new. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
