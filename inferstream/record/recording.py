"""Recordings: what crossed a port for one request, or for one connection of messages."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from time import perf_counter, time
from typing import Any, Literal, NamedTuple

from ..keys.credentials import HEADERS
from .events import RecordedContents

CREDENTIALS = frozenset((*HEADERS, "proxy-authorization", "cookie", "set-cookie"))
"""Headers that are never recorded."""

Direction = Literal["head", "in", "out", "end"]

MOST_BYTES = 64 * 2**20
"""Bytes of recordings that wait for the disk, ended or not. Further events are dropped and counted."""

EVENT_BYTES = 128
"""Bytes that an event takes beside its content."""

Event = tuple[float, Direction, Any]
"""The time on the clock of `perf_counter`, and what a head says or the content of a message: the bytes or the text, or
how many there were where contents are not recorded."""


class Waiting:
    """The bytes of all recordings that wait for the disk: the event loop adds them, the file's thread takes them."""

    def __init__(self, bodies: bool) -> None:
        self.bodies = bodies
        self.added = self.taken = 0


class RecordedRequest(NamedTuple):
    """How a request began. A target of HTTP is made of the template of a route, which a connection has none of."""

    path: str
    headers: Collection[tuple[Any, Any]]
    method: str | None = None
    model: str = ""
    version: str = ""
    query: bytes = b""


class PortRecording:
    """One request, or one connection with its messages. The event loop adds events, the file's thread takes them."""

    id = ""
    """Given with the first line."""
    version = ""
    principal: str | None = None
    dropped = 0
    """Events without room."""
    code = ""
    """How the last call ended; empty for success."""
    status: int | str | None = None
    """None until the end."""
    whole = False
    """Whether all of it is written."""
    contents: RecordedContents | None = None
    """What is sent to a URL at the end."""

    def __init__(
        self, waiting: Waiting, door: str, dialect: str, model: str, request: RecordedRequest | None
    ) -> None:
        self._waiting = waiting
        self.door = door
        self.dialect = dialect
        self.model = model
        self.request = request
        """None once it is written."""
        self.events: list[Event] = []
        self.began = perf_counter()

    @property
    def time(self) -> float:
        """When it began, in seconds since 1970."""
        return time() - perf_counter() + self.began

    def mark(self, direction: Direction, content: Any) -> None:
        """Add an event without a content that takes room."""
        self._waiting.added += EVENT_BYTES
        self.events.append((perf_counter(), direction, content))

    def add(self, direction: Direction, content: bytes | str) -> None:
        waiting = self._waiting
        size = EVENT_BYTES + len(content) if waiting.bodies else EVENT_BYTES
        if waiting.added - waiting.taken + size > MOST_BYTES:
            self.dropped += 1
            return
        waiting.added += size
        self.events.append((perf_counter(), direction, content if waiting.bodies else len(content)))

    def take(self) -> list[Event]:
        """Take the events so far. Others may be added meanwhile."""
        events = self.events[:]
        del self.events[: len(events)]
        self._waiting.taken += self._size(events)
        return events

    def drop(self) -> None:
        """Drop the events. The event loop does it, where the file's thread gets no more of the recording."""
        self._waiting.added -= self._size(self.events)
        self.events.clear()

    def _size(self, events: Sequence[Event]) -> int:
        size = EVENT_BYTES * len(events)
        if self._waiting.bodies:
            for _, direction, content in events:
                if direction in ("in", "out"):
                    size += len(content)
        return size


class ShownHeaders:
    """Headers as texts, without the hidden ones."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self.hidden = hidden
        self._name = lru_cache(1024)(self._name_of)

    def _name_of(self, name: bytes | str) -> str | None:
        """The text of a name; None for a hidden one."""
        lower = _text(name).lower()
        return None if lower in self.hidden else lower

    def __call__(self, headers: Collection[tuple[Any, Any]]) -> list[tuple[str, str]]:
        pairs = [(self._name(name), value) for name, value in headers]
        return [(name, _text(value)) for name, value in pairs if name is not None]


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if type(value) is bytes else str(value)


def encoding_of(head: Mapping[str, Any]) -> str:
    """The content encoding that the head of a response names; empty without one."""
    return next((value for name, value in head["headers"] if name == "content-encoding"), "")
