"""Recordings of the data of one request or one connection, in memory until they are written."""

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
"""Credentials that are also redacted as JSON keys.

Other names, such as `token`, have other meanings in JSON.
"""

CREDENTIALS = CredentialMask(OF_JSON).names
"""Headers that are never recorded."""

MAX_HEADERS = 64
"""Entries in the cache of filtered headers. A client can send up to 64 KB of headers per request."""

Direction = Literal["head", "in", "out", "end"]

MAX_BYTES = 64 * 2**20
"""Maximum total size in bytes of all unwritten recordings.

Events beyond the limit are dropped and counted.
"""

EVENT_BYTES = 128
"""Bytes per event in addition to its content."""

Event = tuple[float, Direction, Any]
"""Time on the `perf_counter` clock, direction, and the head or message content.

If contents are not recorded, the third value is the size of the content.
"""


class Waiting:
    """The total size of all unwritten recordings in bytes.

    The event loop adds bytes, and the file's thread removes them.
    """

    def __init__(self, bodies: bool) -> None:
        self.bodies = bodies
        self.added = self.taken = 0


class RecordedRequest(msgspec.Struct, gc=False):
    """The head of a request. The path is a route template for HTTP, and the actual path for connections."""

    path: str
    headers: Collection[tuple[Any, Any]]
    method: str | None = None
    model: str = ""
    version: str = ""
    query: bytes = b""


class PortRecording(msgspec.Struct, gc=False, eq=False):
    """One request, or one connection with its messages.

    The event loop adds events, and the file's thread takes them.

    Many can exist at once. They are excluded from garbage collection, because they are never part of a cycle.
    """

    waiting: Waiting
    door: str
    dialect: str
    model: str
    request: RecordedRequest | None
    """The head of the request. None after it is written."""
    began: float = msgspec.field(default_factory=perf_counter)
    events: list[Event] = msgspec.field(default_factory=list)
    id: str = ""
    """Generated when the first line is written."""
    version: str = ""
    principal: str | None = None
    dropped: int = 0
    """Number of events that were dropped for lack of space."""
    code: str = ""
    """The outcome of the last call. Empty for success."""
    status: int | str | None = None
    """The final HTTP or gRPC status. None until the end."""
    whole: bool = False
    """Whether everything is written."""
    contents: RecordedContents | None = None
    """Contents that are sent to a URL at the end."""

    @property
    def time(self) -> float:
        """The start time in seconds since 1970."""
        return time() - perf_counter() + self.began

    def mark(self, direction: Direction, content: Any) -> None:
        """Add an event without content."""
        self.waiting.added += EVENT_BYTES
        self.events.append((perf_counter(), direction, content))

    def add(self, direction: Direction, content: bytes | str) -> None:
        waiting = self.waiting
        size = EVENT_BYTES + len(content) if waiting.bodies else EVENT_BYTES
        if waiting.added - waiting.taken + size > MAX_BYTES:
            self.dropped += 1
            return
        waiting.added += size
        self.events.append((perf_counter(), direction, content if waiting.bodies else len(content)))

    def take(self) -> list[Event]:
        """Remove and return the events so far. The event loop may add events at the same time."""
        events = self.events[:]
        del self.events[: len(events)]
        self.waiting.taken += self._size(events)
        return events

    def drop(self) -> None:
        """Discard the events.

        The event loop calls this if the file's thread no longer receives the recording.
        """
        self.waiting.added -= self._size(self.events)
        self.events.clear()

    def _size(self, events: Sequence[Event]) -> int:
        size = EVENT_BYTES * len(events)
        if self.waiting.bodies:
            size += sum([len(content) for _, kind, content in events if kind == "in" or kind == "out"])
        return size


class ShownHeaders(NamedTuple):
    """The headers that may be recorded, as a JSON list of pairs."""

    json: msgspec.Raw
    encoding: str
    """The content encoding in the headers, or an empty string."""


class HeaderFilter:
    """Filters headers, with a cache, because most requests from a client have the same headers."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._mask = CredentialMask(hidden)
        self.shown = lru_cache(MAX_HEADERS)(self._shown)

    def _shown(self, headers: tuple[tuple[Any, Any], ...]) -> ShownHeaders:
        pairs = [(_text(name).lower(), _text(value)) for name, value in headers]
        shown = [(name, mask_keys(value)) for name, value in pairs if not self._mask.hides(name)]
        json = msgspec.json.encode(shown)
        return ShownHeaders(msgspec.Raw(json), dict(pairs).get("content-encoding", ""))


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if type(value) is bytes else str(value)
