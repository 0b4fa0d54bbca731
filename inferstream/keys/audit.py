"""The audit log: one JSON line for each call, without contents."""

import logging
import os
import threading
import time
from contextlib import suppress
from queue import SimpleQueue

import msgspec

from ..errors import InvalidSettings

logger = logging.getLogger("inferstream.keys")

MOST = 16_384
"""Records that wait for the disk. Further ones are dropped and counted."""

_BATCH = 1024
"""Records of one write."""

_PAUSE = 0.05
"""Seconds in which records gather for a write, because a write for each would cost more than its call."""


class AuditRecord(msgspec.Struct, gc=False):
    """Who called what, how much, and how it ended. `time` is in seconds since 1970."""

    time: float
    principal: str | None
    """None, as `key`, where the client has shown no valid key."""
    key: str | None
    peer: str
    """The address of the client, of which a trusted proxy may tell."""
    door: str
    dialect: str
    operation: str
    model: str
    version: str
    request_id: str
    tokens: int
    bytes: int
    status: int
    end: str
    """`success`, `cancelled`, or the code of the error."""


class AuditLog:
    """Appends records to a file, in a thread of its own. A disk that is full stops nothing, and is logged once.

    Several processes may append to the same file. A file that was moved away is begun again.
    Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._records: SimpleQueue[AuditRecord | None] = SimpleQueue()
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
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    def put(self, record: AuditRecord) -> None:
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

    def _run(self) -> None:
        closed = False
        while not closed:
            waiting = [self._records.get()]
            time.sleep(_PAUSE)
            waiting += [self._records.get() for _ in range(self._records.qsize())]
            closed = None in waiting
            records = [record for record in waiting if record is not None]
            for start in range(0, len(records), _BATCH):
                self._write(records[start : start + _BATCH])

    def _write(self, batch: list[AuditRecord]) -> None:
        text = b"".join(self._encode(record) + b"\n" for record in batch)
        refused = self._refused
        if dropped := self._lost_records + refused - self._reported:
            text = self._encode({"time": batch[0].time, "dropped": dropped}) + b"\n" + text
        if self._torn:
            text = b"\n" + text
        try:
            self._open_replaced()
            written = os.write(self._descriptor, text)
        except OSError as error:
            self._lost(len(batch), error.strerror or str(error))
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
            logger.warning("%s: the audit log is written again", self._path)

    def _lost(self, records: int, fault: str) -> None:
        self._lost_records += records
        if fault != self._fault:
            self._fault = fault
            logger.error("%s: the audit log is not written: %s", self._path, fault)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def _open_replaced(self) -> None:
        """Open the path again if another file, or none, is there now."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self._path), os.fstat(self._descriptor)):
                return
        new = self._open()
        os.close(self._descriptor)
        self._descriptor = new


def open_audit_log(path: str) -> AuditLog:
    """The audit log at a path. Raises InvalidSettings."""
    try:
        return AuditLog(path)
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
