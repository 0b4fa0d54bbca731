"""Parsing of record files."""

import json
import os
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

SCHEMA = "inferstream.record/1"

MAX_LINE = 2**29
"""Maximum length of a line in bytes. A recording has at most 64 MiB of contents before JSON escapes them."""

MAX_SHOWN = 200
"""Maximum number of characters that a report shows of a string from the file."""

Content = bytes | str | None
"""The content of an event, or None if only its size was recorded."""


def to_wire_bytes(content: Content) -> bytes:
    """Return the content as bytes, as it was sent over the network."""
    return content.encode() if isinstance(content, str) else content or b""


class RecordedEvent(NamedTuple):
    """Data in direction `in` or `out`, at `seconds` after the start of the request."""

    seconds: float
    direction: str
    content: Content


class BeginLine(msgspec.Struct):
    """The head of a request."""

    target: str
    headers: list[tuple[str, str]]
    method: str | None = None


class EndLine(msgspec.Struct):
    """The outcome of a request."""

    code: str
    status: int | str


class Line(msgspec.Struct):
    """A line of the file. All fields are validated, because the file is untrusted."""

    id: str
    t: float
    door: Literal["http", "websocket", "grpc"]
    dialect: str
    model: str
    events: list[tuple[float, Literal["in", "out", "head", "end"], Any]]
    request: BeginLine | None = None
    end: EndLine | None = None

    def __post_init__(self) -> None:
        times = [self.t, *(event[0] for event in self.events)]
        if not all(isfinite(time) and time >= 0 for time in times):
            raise ValueError("a time is negative or not finite")


class Recorded:
    """One request or one WebSocket connection. `fault` is the reason why its line is invalid, or empty."""

    def __init__(self, line: Line, fault: str = "") -> None:
        self.id = sanitize(line.id)
        self.time = line.t
        self.door = line.door
        self.dialect = sanitize(line.dialect)
        self.model = ""
        self.request = line.request or BeginLine("", [])
        self.events: list[RecordedEvent] = []
        self.end: EndLine | None = None
        self.seconds = 0.0
        """The duration from start to end."""
        self.fault = fault

    @property
    def name(self) -> str:
        return f"{self.id} {self.dialect} {self.model}"

    @property
    def left(self) -> bool:
        """Whether the client disconnected before the end."""
        return self.end is not None and self.end.code == "cancelled"

    def select_contents(self, direction: str) -> list[Content]:
        return [event.content for event in self.events if event.direction == direction]

    def add(self, line: Line, beside: Path) -> None:
        """Add a line of the same recording. Raises OSError or ValueError if its content cannot be read."""
        self.model = sanitize(line.model) or self.model
        self.dialect = sanitize(line.dialect)
        self.end = line.end
        for milliseconds, direction, content in line.events:
            self.seconds = milliseconds / 1000
            if direction in ("in", "out"):
                self.events.append(RecordedEvent(self.seconds, direction, _read_content(content, beside)))

    def explain_incomplete(self) -> str:
        """Return the reason why the recording is incomplete and cannot be sent, or an empty string."""
        if not self.request.target:
            return "its beginning is not in the file"
        if self.end is None:
            return "its end is not in the file"
        if self.door == "websocket" and self.end.status != 101:
            return "its upgrade was refused"
        if any(event.content is None for event in self.events):
            return "the record has no bodies, or not all"
        return ""


def sanitize(text: str) -> str:
    """Make a string from the file safe to print on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_SHOWN])


def read_recordings(file: Path) -> list[Recorded]:
    """Read the recordings of a file, ordered by start time, including invalid ones. Raises OSError."""
    recordings: dict[str, Recorded] = {}
    for number, line in _parse_lines(file):
        if isinstance(line, str):
            empty = Line(f"line {number}", 0.0, "http", "", "", [])
            recordings[empty.id] = Recorded(empty, line)
            continue
        recorded = recordings.setdefault(line.id, Recorded(line))
        try:
            recorded.add(line, file.with_name(f"{file.name}.bin"))
        except (OSError, ValueError) as error:
            recorded.fault = sanitize(f"its contents cannot be read: {error}")
    return sorted(recordings.values(), key=lambda recorded: recorded.time)


def _parse_lines(file: Path) -> Iterator[tuple[int, Line | str]]:
    """Yield the number of each line with the parsed line or the reason why it is invalid."""
    with file.open("rb") as opened:
        number = 0
        while text := opened.readline(MAX_LINE):
            number += 1
            if len(text) == MAX_LINE:
                while text and not text.endswith(b"\n"):
                    text = opened.readline(MAX_LINE)
                yield number, f"the line has more than {MAX_LINE} bytes"
                continue
            try:
                line = json.loads(text)
                if not isinstance(line, dict) or line.get("schema", SCHEMA) != SCHEMA:
                    yield number, f"the line is not a record of the schema {SCHEMA}"
                elif "id" in line:
                    yield number, msgspec.convert(line, Line)
            except (json.JSONDecodeError, UnicodeDecodeError):
                continue  # Truncated by a killed process or a full disk.
            except (ValueError, RecursionError) as error:
                yield number, sanitize(f"the line is not a record: {error}")


def _read_content(content: Any, beside: Path) -> Content:
    if isinstance(content, list):
        start, length = msgspec.convert(content, tuple[int, int])
        with beside.open("rb") as opened:
            if not 0 <= start <= start + length <= os.fstat(opened.fileno()).st_size:
                raise ValueError(f"{beside.name} has no bytes {start} to {start + length}")
            opened.seek(start)
            return opened.read(length)
    return content if isinstance(content, str) else None
