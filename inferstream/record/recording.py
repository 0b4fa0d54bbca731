"""Recordings: what crossed a port for one request, or for one connection of messages."""

from collections.abc import Iterable, Mapping
from time import perf_counter, time
from typing import Any, Literal

from ..dataplane.call import new_id
from ..keys.credentials import HEADERS

CREDENTIALS = frozenset((*HEADERS, "proxy-authorization", "cookie", "set-cookie"))
"""Headers that are never recorded."""

Direction = Literal["head", "in", "out", "end"]

MOST_EVENTS = 16_384
"""Events of one recording that wait for the disk. Further ones are dropped and counted."""

Event = tuple[float, Direction, Any]
"""The time on the clock of `perf_counter`, and the bytes or the text of a message, or what a head says."""


class PortRecording:
    """One request, or one connection with its messages. The event loop adds events, the file's thread takes them."""

    __slots__ = (
        "began",
        "code",
        "dialect",
        "door",
        "dropped",
        "events",
        "id",
        "model",
        "principal",
        "request",
        "size",
        "status",
        "time",
        "version",
        "whole",
    )

    def __init__(self, door: str, dialect: str, model: str, request: dict[str, Any]) -> None:
        self.id = new_id()
        self.time = time()
        self.began = perf_counter()
        self.door = door
        self.dialect = dialect
        self.model = model
        self.version = ""
        self.principal: str | None = None
        self.request: dict[str, Any] | None = request
        """None once it is written."""
        self.events: list[Event] = []
        self.dropped = 0
        self.code = ""
        """How the last call ended; empty for success."""
        self.status: int | str | None = None
        """None until the end."""
        self.size = 0
        """Bytes that wait for the disk, at the end."""
        self.whole = False
        """Whether all of it is written."""

    def add(self, direction: Direction, content: Any) -> None:
        if len(self.events) < MOST_EVENTS:
            self.events.append((perf_counter(), direction, content))
        else:
            self.dropped += 1

    def taken(self) -> list[Event]:
        """Take the events so far. Others may be added meanwhile."""
        events = self.events[:]
        del self.events[: len(events)]
        return events


def shown(headers: Iterable[tuple[Any, Any]], hidden: frozenset[str]) -> list[tuple[str, str]]:
    """Headers as texts, without the hidden ones."""
    texts = ((_text(name).lower(), _text(value)) for name, value in headers)
    return [(name, value) for name, value in texts if name not in hidden]


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else bytes(value).decode("latin-1")


def encoding_of(head: Mapping[str, Any]) -> str:
    """The content encoding that the head of a response names; empty without one."""
    return next((value for name, value in head["headers"] if name == "content-encoding"), "")
