"""Recordings: what crossed a port for one request, or for one connection of messages."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from time import perf_counter, time
from typing import Any, Literal, NamedTuple

import msgspec

from inferstream.ext.telemetry import CredentialMask, mask_keys

from .events import RecordedContents

OF_JSON = frozenset(
    ("authorization", "proxy-authorization", "x-api-key", "sec-websocket-protocol", "cookie", "set-cookie")
)
"""Credentials that are names of JSON too; other names, such as `token`, have other meanings there."""

CREDENTIALS = CredentialMask(OF_JSON).names
"""Headers that are never recorded."""

MOST_HEADERS = 64
"""Heads whose headers are kept as they are shown. A client may send 64 KB in each."""

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


class RecordedRequest(msgspec.Struct, gc=False):
    """How a request began. A target of HTTP is made of the template of a route, which a connection has none of."""

    path: str
    headers: Collection[tuple[Any, Any]]
    method: str | None = None
    model: str = ""
    version: str = ""
    query: bytes = b""


class PortRecording(msgspec.Struct, gc=False, eq=False):
    """One request, or one connection with its messages. The event loop adds events, the file's thread takes them.

    Many wait at once, so the garbage collector leaves them alone: none is part of a cycle.
    """

    waiting: Waiting
    door: str
    dialect: str
    model: str
    request: RecordedRequest | None
    """None once it is written."""
    began: float = msgspec.field(default_factory=perf_counter)
    events: list[Event] = msgspec.field(default_factory=list)
    id: str = ""
    """Given with the first line."""
    version: str = ""
    principal: str | None = None
    dropped: int = 0
    """Events without room."""
    code: str = ""
    """How the last call ended; empty for success."""
    status: int | str | None = None
    """None until the end."""
    whole: bool = False
    """Whether all of it is written."""
    contents: RecordedContents | None = None
    """What is sent to a URL at the end."""

    @property
    def time(self) -> float:
        """When it began, in seconds since 1970."""
        return time() - perf_counter() + self.began

    def mark(self, direction: Direction, content: Any) -> None:
        """Add an event without a content that takes room."""
        self.waiting.added += EVENT_BYTES
        self.events.append((perf_counter(), direction, content))

    def add(self, direction: Direction, content: bytes | str) -> None:
        waiting = self.waiting
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
        self.waiting.taken += self._size(events)
        return events

    def drop(self) -> None:
        """Drop the events. The event loop does it, where the file's thread gets no more of the recording."""
        self.waiting.added -= self._size(self.events)
        self.events.clear()

    def _size(self, events: Sequence[Event]) -> int:
        size = EVENT_BYTES * len(events)
        if self.waiting.bodies:
            size += sum([len(content) for _, kind, content in events if kind == "in" or kind == "out"])
        return size


class ShownHeaders(NamedTuple):
    """Headers without the hidden ones: pairs of texts."""

    json: msgspec.Raw
    encoding: str
    """The content encoding that they name; empty without one."""


class HeaderFilter:
    """Makes headers shown. Most requests of a client have the same ones, and so have most responses of a model."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._mask = CredentialMask(hidden)
        self.shown = lru_cache(MOST_HEADERS)(self._shown)

    def _shown(self, headers: tuple[tuple[Any, Any], ...]) -> ShownHeaders:
        pairs = [(_text(name).lower(), _text(value)) for name, value in headers]
        shown = [(name, mask_keys(value)) for name, value in pairs if not self._mask.hides(name)]
        json = msgspec.json.encode(shown)
        return ShownHeaders(msgspec.Raw(json), dict(pairs).get("content-encoding", ""))


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if type(value) is bytes else str(value)
