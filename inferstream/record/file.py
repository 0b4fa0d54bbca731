"""The file of recordings: lines of JSON, and binary parts beside. It rotates, so that it stays within its bytes."""

import fcntl
import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ..settings.record import RecordSettings
from ..statuses import HTTP_OF_GRPC, code_of_http
from ..telemetry.lines import LineFile, open_private
from .recording import Event, PortRecording, encoding_of, shown
from .redaction import redacted

SCHEMA = "inferstream.record/1"

MOST_BYTES = 64 * 2**20
"""Bytes of ended recordings that wait for the disk. Further recordings are dropped and counted."""


class RecordFile(LineFile[PortRecording]):
    """Writes recordings at their end, and what there is of longer ones at each look. Raises OSError."""

    name = "record"
    logger = logging.getLogger("inferstream.record")
    batch = 32  # between two writes the thread holds the interpreter lock
    every = 0.25

    def __init__(self, settings: RecordSettings, hidden: frozenset[str]) -> None:
        self._settings = settings
        self._hidden = hidden
        self._open_recordings: dict[int, PortRecording] = {}
        self._put_bytes = self._written_bytes = 0
        self._beside = open_private(f"{settings.path}.bin")
        super().__init__(settings.path)

    def open(self, recording: PortRecording) -> None:
        self._open_recordings[id(recording)] = recording

    def end(self, recording: PortRecording, status: int | str) -> None:
        """Write the rest of a recording soon. It never waits."""
        recording.add("end", None)
        size = sum(len(content) for _, kind, content in recording.events if kind in ("in", "out"))
        recording.size, recording.status = size, status
        del self._open_recordings[id(recording)]
        if self._put_bytes - self._written_bytes + size > MOST_BYTES:
            self._refused += 1
            return
        refused = self._refused
        self.put(recording)
        if self._refused == refused:
            self._put_bytes += size

    def _write(self, batch: list[PortRecording]) -> None:
        super()._write(batch)
        for recording in batch:  # written or lost, they wait no more
            if recording.status is not None:
                self._written_bytes += recording.size
                recording.size = 0

    def unfinished(self) -> Sequence[PortRecording]:
        """Recordings of which something is not written."""
        return [each for each in [*self._open_recordings.values()] if each.request or each.events]

    def text(self, records: Sequence[PortRecording]) -> bytes:
        """Lines of those that are wanted. Writes their binary parts before."""
        with self._locked():
            return b"".join([self._line(record) for record in records if self._wanted(record)])

    def _wanted(self, record: PortRecording) -> bool:
        """Whether there is something to write. A look may have met one that has ended since, and wrote all."""
        models = self._settings.models
        if models and record.model and record.model not in models:
            record.taken()  # a long one would keep all of them until its end
            return False
        return not (record.whole or (models and not record.model))

    def _line(self, record: PortRecording) -> bytes:
        status = record.status  # before the events, which end with it
        events = record.taken()
        ended = status is not None
        record.whole = ended
        request, record.request = record.request, None
        if request is not None:
            request["headers"] = shown(request["headers"], self._hidden)
        line: dict[str, Any] = {
            "schema": SCHEMA,
            "id": record.id,
            "t": record.time,
            "door": record.door,
            "dialect": record.dialect,
            "model": record.model,
            "version": record.version,
            "principal": record.principal,
            "request": request,
            "events": [*self._events(record, events)],
            "end": {"code": record.code or _code(status), "status": status} if ended else None,
        }
        if record.dropped:
            line["dropped"] = record.dropped
        return self._encode(line) + b"\n"

    def _events(self, record: PortRecording, events: Sequence[Event]) -> Iterator[list[Any]]:
        encoding = ""
        for at, direction, content in events:
            milliseconds = round((at - record.began) * 1000, 3)
            if direction == "end":
                yield [milliseconds, direction, None]
                continue
            if direction == "head":
                status, headers = content
                head = {"status": status, "headers": shown(headers, self._hidden)}
                encoding = encoding_of(head)
                yield [milliseconds, direction, head]
                continue
            if encoding and direction == "out":
                with suppress(zlib.error):
                    content = zlib.decompress(content, 47)
            yield [milliseconds, direction, self._content(content, record.door)]

    def _content(self, content: bytes | str, door: str) -> Any:
        """A text, the place of bytes in the file beside, or their number where they are not recorded."""
        settings = self._settings
        if not settings.bodies:
            return len(content)
        if settings.redact:
            clean = None if door == "grpc" else redacted(content, self._hidden)  # a message is no text
            if clean is None:
                return len(content)
            content = clean
        if isinstance(content, str):
            return content
        if door == "http" and b"\x00" not in content:
            with suppress(UnicodeDecodeError):
                return content.decode()
        written = os.write(self._beside, content)
        if written < len(content):
            raise OSError("the disk is full")
        return [os.lseek(self._beside, 0, os.SEEK_CUR) - written, written]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from a rotation between a binary part and its line."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _open_replaced(self) -> None:
        before = self._descriptor
        super()._open_replaced()
        if self._descriptor != before or not os.path.exists(f"{self._path}.bin"):
            os.close(self._beside)
            self._beside = open_private(f"{self._path}.bin")

    def written(self) -> None:
        """Rotate at half of the bytes."""
        size = os.fstat(self._descriptor).st_size + os.fstat(self._beside).st_size
        if size * 2 < self._settings.max_bytes:
            return
        with suppress(OSError), self._locked():
            for path in (f"{self._path}.bin", self._path):
                os.replace(path, _older(path, self._path))

    def close(self) -> None:
        super().close()
        os.close(self._beside)


def _older(path: str, lines: str) -> str:
    """The name after a rotation: the lines `a.1` have their binary parts in `a.1.bin`."""
    return f"{lines}.1{path[len(lines) :]}"


def _code(status: int | str | None) -> str:
    """The end of a request that never was a call, or whose last call ended well."""
    http = HTTP_OF_GRPC.get(status, 500) if isinstance(status, str) else status or 0
    if status == "OK" or http < 400:
        return "success"
    return "cancelled" if http == 499 else code_of_http(http).value
