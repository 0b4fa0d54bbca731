"""The record file with JSON lines, and a second file with binary contents. Both are rotated by size."""

import fcntl
import logging
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from time import perf_counter, sleep
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec

from inferstream.errors import ModelError
from inferstream.ext.http import HTTP_OF_GRPC
from inferstream.ext.telemetry import CredentialMask, LineFile, mask_keys

from .events import EventSink, RecordedContents
from .recording import CREDENTIALS, OF_JSON, Event, HeaderFilter, PortRecording, RecordedRequest, Waiting
from .redaction import redact, remove_secrets
from .settings import RecordSettings

SCHEMA = "inferstream.record/1"

_VERSION, _NAME = re.compile(r"\{[^}]*version[^}]*\}"), re.compile(r"\{[^}]*\}")

_IN_PATHS = "/:@!$&'()*+,;=~"
"""Characters that are not percent-encoded in a path."""

NAMED = 10.0
"""Seconds after which a recording without a model name is discarded, if only some models are recorded."""

SEALING = "openai"
"""The API whose clients store sealed states."""

AT_ONCE = 512
"""Approximate number of events per write."""

PAUSE = 0.001
"""Pause between writes in seconds."""


class RecordLine(msgspec.Struct, gc=False):
    """A line of the record file: a whole recording, or the part of a long one since its previous line."""

    schema: str
    id: str
    t: float
    door: str
    dialect: str
    model: str
    version: str
    principal: str | None
    request: dict[str, Any] | None
    events: list[tuple[float, str, Any]]
    end: dict[str, Any] | None
    dropped: int | msgspec.UnsetType = msgspec.UNSET


class RecordFile(LineFile[PortRecording]):
    """Writes recordings when they end, and parts of long recordings periodically.

    Without a path, it writes no lines and only feeds the event sink. Raises OSError
    if a file cannot be opened.
    """

    name = "record"
    logger = logging.getLogger("inferstream.record")
    every = 0.25

    def __init__(
        self, settings: RecordSettings, hidden: frozenset[str], sink: EventSink | None = None
    ) -> None:
        self._settings = settings
        self._headers = HeaderFilter(hidden)
        self._targets = CredentialMask()
        self._redacted = (hidden - CREDENTIALS).union(OF_JSON, settings.redact)
        self._sink = sink
        self.waiting = Waiting(settings.bodies)
        self._open_recordings: dict[int, PortRecording] = {}
        self._beside = self.open_private(f"{settings.path}.bin" if settings.path else os.devnull)
        super().__init__(settings.path or os.devnull)

    def open(self, recording: PortRecording) -> None:
        self._open_recordings[id(recording)] = recording

    def end(self, recording: PortRecording, status: int | str) -> None:
        """Enqueue the rest of a recording. Never blocks."""
        recording.mark("end", None)
        recording.status = status
        del self._open_recordings[id(recording)]
        if not self.put(recording):
            recording.drop()

    def pending_records(self) -> Sequence[PortRecording]:
        """Return the open recordings with unwritten data."""
        return [each for each in [*self._open_recordings.values()] if each.request or each.events]

    def batches(self, records: list[PortRecording]) -> Iterator[list[PortRecording]]:
        """Yield batches of about `AT_ONCE` events, with a pause after each.

        A larger write would hold the interpreter lock for too long. Without the pause, the thread would
        reacquire the lock at the next send of the event loop, and delay it.
        """
        batch: list[PortRecording] = []
        events = 0
        for record in records:
            batch.append(record)
            events += len(record.events)
            if events >= AT_ONCE:
                yield batch
                sleep(PAUSE)
                batch, events = [], 0
        if batch:
            yield batch

    def write(self, batch: list[PortRecording]) -> None:
        super().write(batch)
        if self._settings.path:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        for recording in batch:
            if recording.status is not None:
                if recording.events:
                    recording.take()  # Release the space of events that could not be written.
                if self._sink is not None and recording.contents is not None:
                    self._sink.release(recording.contents)
                    recording.contents = None

    def reopen_if_rotated(self) -> None:
        """Reopen the files at the paths and lock them, so that no process writes during a rotation."""
        if not self._settings.path:
            return
        before = None
        while before != self._descriptor:
            before = self._descriptor
            fcntl.flock(before, fcntl.LOCK_EX)
            super().reopen_if_rotated()
        if self._settings.bodies:
            self._beside = self.reopen(f"{self._target}.bin", self._beside)

    def text(self, records: Sequence[PortRecording]) -> bytes:
        """Encode the recordings of the selected models. Writes their binary parts first."""
        return b"".join([self._line(record) for record in records if self._has_data(record)])

    def _has_data(self, record: PortRecording) -> bool:
        """Whether there is something to write.

        An earlier periodic write may already have included the end.
        """
        models = self._settings.models
        if not models or record.model in models:
            return not record.whole
        old = record.events and perf_counter() - record.events[0][0] > NAMED
        if record.model or old:
            record.take()  # Otherwise a long recording would accumulate events until its end.
        return False

    def _line(self, record: PortRecording) -> bytes:
        status = record.status  # Read before the events, because the end is the last event.
        events = self._events(record, record.take())
        record.whole = status is not None
        record.id = record.id or str(uuid4())
        request, record.request = self._request(record.request), None
        end = {"code": record.code or _code(status), "status": status} if record.whole else None
        if self._sink is not None:
            self._log(self._sink, record, request, events, end)
        if not self._settings.path:
            return b""
        if self._settings.bodies:
            placed, door = self._store, record.door
            events = [
                (at, kind, placed(content, door) if type(content) is bytes else content)
                for at, kind, content in events
            ]
        line = RecordLine(
            SCHEMA,
            record.id,
            record.time,
            record.door,
            record.dialect,
            mask_keys(record.model),
            mask_keys(record.version),
            record.principal,
            request,
            events,
            end,
            record.dropped or msgspec.UNSET,
        )
        return self._encode(line) + b"\n"

    def _log(
        self,
        sink: EventSink,
        record: PortRecording,
        request: dict[str, Any] | None,
        events: Sequence[tuple[float, str, Any]],
        end: dict[str, Any] | None,
    ) -> None:
        """Buffer the contents of a recording for its events, and send them when it ends."""
        contents = record.contents = record.contents or RecordedContents(sink, request)
        for _, direction, content in events:
            contents.add(direction, content)
        if end is not None:
            record.contents = None
            named = {name: str(value) for name, value in end.items()}
            time = datetime.fromtimestamp(record.time, UTC).isoformat()
            model = mask_keys(record.model)
            named |= {"id": record.id, "time": time, "modelid": model, "endpoint": model}
            sink.enqueue_events(contents, named, record.door)

    def _request(self, head: RecordedRequest | None) -> dict[str, Any] | None:
        if head is None:
            return None
        target = _target(head.path, head.model, head.version) if head.method else quote(head.path, _IN_PATHS)
        if target.startswith("//") or target[:1] != "/":
            target = "/"  # A client can send any path. The server rejects this one.
        if head.query and self._settings.bodies and not self._settings.redact:
            target += "?" + head.query.decode("latin-1")
        request = {
            "target": self._targets.mask_target(target),
            "headers": self._headers.shown(tuple(head.headers)).json,
        }
        if head.method:
            request["method"] = head.method
        return request

    def _events(self, record: PortRecording, events: Sequence[Event]) -> list[tuple[float, str, Any]]:
        began, bodies, encoding = record.began, self._settings.bodies, ""
        timed: list[tuple[float, str, Any]] = []
        for at, direction, content in events:
            if direction == "head":
                status, headers = content
                shown = self._headers.shown(tuple(headers))
                content = {"status": status, "headers": shown.json}
                encoding = shown.encoding if bodies else ""
            elif bodies and direction != "end":
                content = self._clean(content, record, encoding if direction == "out" else "")
            timed.append((int((at - began) * 1e6) / 1e3, direction, content))
        return timed

    def _clean(self, content: bytes | str, record: PortRecording, encoding: str) -> bytes | str | int:
        """Redact content. Returns its size instead if it cannot be inspected."""
        if encoding and isinstance(content, bytes):
            with suppress(zlib.error):
                content = zlib.decompress(content, 47)
        clean = remove_secrets(content, record.dialect == SEALING)
        if self._settings.redact and clean is not None:
            # A gRPC message is not JSON.
            clean = None if record.door == "grpc" else redact(clean, self._redacted)
        return len(content) if clean is None else clean

    def _store(self, content: bytes, door: str) -> str | list[int]:
        """Return HTTP content as text if it is UTF-8 without null characters.

        Otherwise, append the content to the binary file and return its offset and length.
        """
        if door == "http" and b"\x00" not in content:
            try:
                return content.decode()
            except UnicodeDecodeError:
                pass
        written = os.write(self._beside, content)
        if written < len(content):
            raise OSError("the disk is full")
        return [os.lseek(self._beside, 0, os.SEEK_CUR) - written, written]

    def written(self) -> None:
        """Rotate the files at half of the size limit. The current files are open and locked."""
        size = os.fstat(self._descriptor).st_size + os.fstat(self._beside).st_size
        if not self._settings.path or size * 2 < self._settings.max_bytes:
            return
        with suppress(OSError):
            for path in (f"{self._target}.bin", self._target):
                os.replace(path, _older(path, self._target))

    def close(self, seconds: float | None = None) -> None:
        super().close(seconds)
        os.close(self._beside)
        if self._sink is not None:
            self._sink.close()


@lru_cache(1024)
def _target(template: str, model: str, version: str) -> str:
    """Return the path of a route, with its model and version filled in."""
    named = _VERSION.sub(lambda _: quote(version, safe=""), template)
    return _NAME.sub(lambda _: quote(model, safe=""), named)


def _older(path: str, lines: str) -> str:
    """Return the name after a rotation: `a.1` contains the lines, and `a.1.bin` their binary parts."""
    return f"{lines}.1{path[len(lines) :]}"


def _code(status: int | str | None) -> str:
    """Return the outcome of a request that did not become a call, or whose last call succeeded."""
    http = HTTP_OF_GRPC.get(status, 500) if isinstance(status, str) else status or 0
    if status == "OK" or http < 400:
        return "success"
    return "cancelled" if http == 499 else ModelError("", http).code.value
