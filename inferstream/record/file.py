"""The file of recordings: lines of JSON, and binary parts beside. It rotates, so that it stays within its bytes."""

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

from ..settings.record import RecordSettings
from .events import EventSink, RecordedContents
from .recording import CREDENTIALS, OF_JSON, Event, HeaderFilter, PortRecording, RecordedRequest, Waiting
from .redaction import redacted, without_secrets

SCHEMA = "inferstream.record/1"

_VERSION, _NAME = re.compile(r"\{[^}]*version[^}]*\}"), re.compile(r"\{[^}]*\}")

_IN_PATHS = "/:@!$&'()*+,;=~"
"""What is not percent-encoded in a path."""

NAMED = 10.0
"""Seconds in which a request names its model, where those of some models alone are recorded."""

SEALING = "openai"
"""The dialect whose clients keep states."""

AT_ONCE = 512
"""Events of one write."""

PAUSE = 0.001
"""Seconds between two writes."""


class RecordLine(msgspec.Struct, gc=False):
    """A line of the file: a recording, or what there is of a longer one since the last line."""

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
    """Writes recordings at their end, and what there is of longer ones at each look. Raises OSError.

    Without a path it writes no lines, and serves the sink alone.
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
        """Write the rest of a recording soon. It never waits."""
        recording.mark("end", None)
        recording.status = status
        del self._open_recordings[id(recording)]
        if not self.put(recording):
            recording.drop()

    def unfinished(self) -> Sequence[PortRecording]:
        """Recordings of which something is not written."""
        return [each for each in [*self._open_recordings.values()] if each.request or each.events]

    def batches(self, records: list[PortRecording]) -> Iterator[list[PortRecording]]:
        """Those with `AT_ONCE` events, and a pause after each.

        A write of more would hold the interpreter lock, and without a pause the thread takes it again at the next send
        of the event loop, which then waits in the middle of its turn.
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
                    recording.take()  # what could not be written waits no more
                if self._sink is not None and recording.contents is not None:
                    self._sink.release(recording.contents)
                    recording.contents = None

    def open_replaced(self) -> None:
        """Open what is at the paths now, and lock it: no process writes between the steps of another's rotation."""
        if not self._settings.path:
            return
        before = None
        while before != self._descriptor:
            before = self._descriptor
            fcntl.flock(before, fcntl.LOCK_EX)
            super().open_replaced()
        if self._settings.bodies:
            self._beside = self.reopen(f"{self._target}.bin", self._beside)

    def text(self, records: Sequence[PortRecording]) -> bytes:
        """Lines of those that are wanted. Writes their binary parts before."""
        return b"".join([self._line(record) for record in records if self._wanted(record)])

    def _wanted(self, record: PortRecording) -> bool:
        """Whether there is something to write. A look may have met one that has ended since, and wrote all."""
        models = self._settings.models
        if not models or record.model in models:
            return not record.whole
        old = record.events and perf_counter() - record.events[0][0] > NAMED
        if record.model or old:
            record.take()  # a long one would keep all of them until its end
        return False

    def _line(self, record: PortRecording) -> bytes:
        status = record.status  # before the events, which end with it
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
            placed, door = self._placed, record.door
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
        """Keep what the events of a recording are made of, and send them at its end."""
        contents = record.contents = record.contents or RecordedContents(sink, request)
        for _, direction, content in events:
            contents.add(direction, content)
        if end is not None:
            record.contents = None
            named = {name: str(value) for name, value in end.items()}
            time = datetime.fromtimestamp(record.time, UTC).isoformat()
            model = mask_keys(record.model)
            named |= {"id": record.id, "time": time, "modelid": model, "endpoint": model}
            sink.end(contents, named, record.door)

    def _request(self, head: RecordedRequest | None) -> dict[str, Any] | None:
        if head is None:
            return None
        target = _target(head.path, head.model, head.version) if head.method else quote(head.path, _IN_PATHS)
        if target.startswith("//") or target[:1] != "/":
            target = "/"  # a client may send any, and it is refused
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
        """A content without what is redacted, or its size where nobody can tell what it has."""
        if encoding and isinstance(content, bytes):
            with suppress(zlib.error):
                content = zlib.decompress(content, 47)
        clean = without_secrets(content, record.dialect == SEALING)
        if self._settings.redact and clean is not None:
            clean = None if record.door == "grpc" else redacted(clean, self._redacted)  # a message is no text
        return len(content) if clean is None else clean

    def _placed(self, content: bytes, door: str) -> str | list[int]:
        """A text for bytes, or their place in the file beside."""
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
        """Rotate at half of the bytes. What is at the paths is open here, and locked."""
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
    """The path of a route, with its model and version."""
    named = _VERSION.sub(lambda _: quote(version, safe=""), template)
    return _NAME.sub(lambda _: quote(model, safe=""), named)


def _older(path: str, lines: str) -> str:
    """The name after a rotation: the lines `a.1` have their binary parts in `a.1.bin`."""
    return f"{lines}.1{path[len(lines) :]}"


def _code(status: int | str | None) -> str:
    """The end of a request that never was a call, or whose last call ended well."""
    http = HTTP_OF_GRPC.get(status, 500) if isinstance(status, str) else status or 0
    if status == "OK" or http < 400:
        return "success"
    return "cancelled" if http == 499 else ModelError("", http).code.value
