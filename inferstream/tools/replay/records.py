"""Recordings, read from a file of the recorder."""

import json
import os
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

SCHEMA = "inferstream.record/1"

MOST_LINE = 2**29
"""Bytes of a line; a recording has 64 MiB of contents at most, before JSON escapes them."""

MOST_SHOWN = 200
"""Characters of a text of the file in the report."""

Content = bytes | str | None
"""None where the size alone is recorded."""


def octets(content: Content) -> bytes:
    """A content as it crossed the port."""
    return content.encode() if isinstance(content, str) else content or b""


class RecordedEvent(NamedTuple):
    """Something that crossed the port, so many seconds after the beginning: `in` or `out`."""

    seconds: float
    direction: str
    content: Content


class BeginLine(msgspec.Struct):
    """How a request began."""

    target: str
    headers: list[tuple[str, str]]
    method: str | None = None


class EndLine(msgspec.Struct):
    """How a request ended."""

    code: str
    status: int | str


class Line(msgspec.Struct):
    """A line of the file. Anybody may have written it, so all of it is checked."""

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
    """One request, or one connection of messages. `fault` is what is wrong with its line."""

    def __init__(self, line: Line, fault: str = "") -> None:
        self.id = shown(line.id)
        self.time = line.t
        self.door = line.door
        self.dialect = shown(line.dialect)
        self.model = ""
        self.request = line.request or BeginLine("", [])
        self.events: list[RecordedEvent] = []
        self.end: EndLine | None = None
        self.seconds = 0.0
        """From the beginning to the end."""
        self.fault = fault

    @property
    def name(self) -> str:
        return f"{self.id} {self.dialect} {self.model}"

    @property
    def left(self) -> bool:
        """Whether the client left before the end."""
        return self.end is not None and self.end.code == "cancelled"

    def of(self, direction: str) -> list[Content]:
        return [event.content for event in self.events if event.direction == direction]

    def add(self, line: Line, beside: Path) -> None:
        """Take a further line of the same recording. Raises OSError and ValueError for a content that is not there."""
        self.model = shown(line.model) or self.model
        self.dialect = shown(line.dialect)
        self.end = line.end
        for milliseconds, direction, content in line.events:
            self.seconds = milliseconds / 1000
            if direction in ("in", "out"):
                self.events.append(RecordedEvent(self.seconds, direction, _content(content, beside)))

    def missing(self) -> str:
        """Why it cannot be sent again; empty if it can."""
        if not self.request.target:
            return "its beginning is not in the file"
        if self.end is None:
            return "its end is not in the file"
        if self.door == "websocket" and self.end.status != 101:
            return "its upgrade was refused"
        if any(event.content is None for event in self.events):
            return "the record has no bodies, or not all"
        return ""


def shown(text: str) -> str:
    """A text of the file for the report, which may go to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text[:MOST_SHOWN])


def read(file: Path) -> list[Recorded]:
    """The recordings of a file in the order of their beginnings, those with a fault among them. Raises OSError."""
    recordings: dict[str, Recorded] = {}
    for number, line in _lines(file):
        if isinstance(line, str):
            empty = Line(f"line {number}", 0.0, "http", "", "", [])
            recordings[empty.id] = Recorded(empty, line)
            continue
        recorded = recordings.setdefault(line.id, Recorded(line))
        try:
            recorded.add(line, file.with_name(f"{file.name}.bin"))
        except (OSError, ValueError) as error:
            recorded.fault = shown(f"its contents cannot be read: {error}")
    return sorted(recordings.values(), key=lambda recorded: recorded.time)


def _lines(file: Path) -> Iterator[tuple[int, Line | str]]:
    """Each line with its number, or what is wrong with it."""
    with file.open("rb") as opened:
        number = 0
        while text := opened.readline(MOST_LINE):
            number += 1
            if len(text) == MOST_LINE:
                while text and not text.endswith(b"\n"):
                    text = opened.readline(MOST_LINE)
                yield number, f"the line has more than {MOST_LINE} bytes"
                continue
            try:
                line = json.loads(text)
                if not isinstance(line, dict) or line.get("schema", SCHEMA) != SCHEMA:
                    yield number, f"the line is not a record of the schema {SCHEMA}"
                elif "id" in line:
                    yield number, msgspec.convert(line, Line)
            except (json.JSONDecodeError, UnicodeDecodeError):
                continue  # torn by a kill or a full disk
            except (ValueError, RecursionError) as error:
                yield number, shown(f"the line is not a record: {error}")


def _content(content: Any, beside: Path) -> Content:
    if isinstance(content, list):
        start, length = msgspec.convert(content, tuple[int, int])
        with beside.open("rb") as opened:
            if not 0 <= start <= start + length <= os.fstat(opened.fileno()).st_size:
                raise ValueError(f"{beside.name} has no bytes {start} to {start + length}")
            opened.seek(start)
            return opened.read(length)
    return content if isinstance(content, str) else None
