"""Recordings, read from a file of the recorder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InvalidSettings

SCHEMA = "inferstream.record/1"

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


class Recorded:
    """One request, or one connection of messages."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.id: str = line["id"]
        self.time: float = line["t"]
        self.door: str = line["door"]
        self.dialect: str = line["dialect"]
        self.model = ""
        self.request: dict[str, Any] = line["request"] or {}
        self.head: dict[str, Any] = {}
        self.events: list[RecordedEvent] = []
        self.end: dict[str, Any] | None = None
        self.seconds = 0.0
        """From the beginning to the end."""

    @property
    def name(self) -> str:
        return f"{self.id} {self.dialect} {self.model}"

    @property
    def left(self) -> bool:
        """Whether the client left before the end."""
        return self.end is not None and self.end["code"] == "cancelled"

    def of(self, direction: str) -> list[Content]:
        return [event.content for event in self.events if event.direction == direction]

    def add(self, line: dict[str, Any], beside: Path) -> None:
        """Take a further line of the same recording."""
        self.model = line["model"] or self.model
        self.dialect = line["dialect"]
        self.end = line["end"]
        for milliseconds, direction, content in line["events"]:
            self.seconds = milliseconds / 1000
            if direction == "head":
                self.head = content
            elif direction != "end":
                self.events.append(RecordedEvent(self.seconds, direction, _content(content, beside)))

    def missing(self) -> str:
        """Why it cannot be sent again; empty if it can."""
        if not self.request:
            return "its beginning is not in the file"
        if self.end is None:
            return "its end is not in the file"
        if any(event.content is None for event in self.events):
            return "the record has no bodies, or not all"
        return ""


def read(file: Path) -> list[Recorded]:
    """The recordings of a file in the order of their beginnings. Raises OSError, InvalidSettings."""
    recordings: dict[str, Recorded] = {}
    for line in _lines(file):
        recorded = recordings.setdefault(line["id"], Recorded(line))
        recorded.add(line, file.with_name(f"{file.name}.bin"))
    return sorted(recordings.values(), key=lambda recorded: recorded.time)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as opened:
        for number, text in enumerate(opened, 1):
            try:
                line = json.loads(text)
            except ValueError:
                continue  # torn by a kill or a full disk
            if not isinstance(line, dict) or line.get("schema", SCHEMA) != SCHEMA:
                raise InvalidSettings(f"{file}:{number}: no record of the schema {SCHEMA}")
            if "id" in line:
                yield line


def _content(content: Any, beside: Path) -> Content:
    if isinstance(content, list):
        with beside.open("rb") as opened:
            opened.seek(content[0])
            return opened.read(content[1])
    return content if isinstance(content, str) else None
