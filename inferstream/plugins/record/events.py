"""CloudEvents for requests, responses and failures, in the format of the KServe logger."""

import logging
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from inferstream.ext.telemetry import BackgroundWriter
from inferstream.plugins.cloudevents.events import namespace

REQUEST, RESPONSE = "org.kubeflow.serving.inference.request", "org.kubeflow.serving.inference.response"

MAX_BYTES = 64 * 2**20
"""Maximum total size in bytes of the buffered contents of all recordings.

Content beyond the limit is dropped and counted.
"""

MAX_CONTENT_BYTES = 4 * 2**20
"""Maximum size of the contents of one recording in bytes.

Events are buffered in memory, and brokers reject larger ones.
"""

SECONDS = 5.0
"""Timeout of a delivery in seconds. Later events wait until it finishes.

At shutdown, the remaining events must be sent within this time.
"""

MAX_ANSWER = 65536
"""Maximum number of bytes per read of a response.

Responses are read to the end, so that the connection can be reused.
"""

SHARES = 8
"""Each recording may use one eighth of the free buffer, so that long connections leave room for others."""

MAX_TEXT = 256
"""Maximum length of the client's id and content type in an event, in characters."""

CONTENT_TYPES = {"grpc": "application/grpc+proto", "websocket": "application/x-ndjson"}
"""Content types by interface. HTTP contents use the type in their headers."""

_PRINTABLE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"
"""Characters other than letters and digits that are not percent-encoded in CloudEvents headers."""


class DirectedContent:
    """The recorded contents in one direction."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = self.dropped = 0
        self.hidden = False
        """Whether a part was not recorded, so that the rest is incomplete."""

    def body(self, door: str) -> bytes:
        """Join all contents: gRPC messages with their length prefixes, WebSocket messages as lines.

        Empty if a part was not recorded.
        """
        if self.hidden:
            return b""
        if door == "grpc":
            return b"".join(b"\0" + len(part).to_bytes(4, "big") + part for part in self.parts)
        return (b"\n" if door == "websocket" else b"").join(self.parts)


class RecordedContents:
    """The headers and contents of a recording, from which its events are built."""

    def __init__(self, sink: "EventSink", request: Mapping[str, Any] | None) -> None:
        self._sink = sink
        self.request = request or {}
        self.head: Mapping[str, Any] = {}
        self.sides = {"in": DirectedContent(), "out": DirectedContent()}
        self.kept = 0

    def add(self, direction: str, content: Any) -> None:
        """Buffer content, or only count its bytes if it was not recorded."""
        if direction == "head":
            self.head = content
        if direction not in self.sides:
            return
        side = self.sides[direction]
        if isinstance(content, int):
            side.size += content
            side.hidden = True
            return
        part = content.encode() if isinstance(content, str) else content
        side.size += len(part)
        room = min(MAX_CONTENT_BYTES, self._sink.room // SHARES)
        if self.kept + len(part) > room or not self._sink.reserve(len(part)):
            side.dropped += 1
            return
        self.kept += len(part)
        side.parts.append(part)


class CloudEvent(NamedTuple):
    """An event in HTTP binary mode. `kept` is the number of bytes to free when it is sent or dropped."""

    headers: dict[str, str]
    body: bytes
    kept: int


class EventSink(BackgroundWriter[CloudEvent]):
    """Sends events to a URL, one at a time.

    If the URL is slow or unreachable, events are dropped and nothing blocks.
    """

    name = "log of events"
    logger = logging.getLogger("inferstream.record")

    def __init__(self, url: str, mode: str, server_name: str) -> None:
        parts = urlsplit(url)
        connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = connection(parts.hostname or "", parts.port, timeout=SECONDS)
        self._path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        self._types = {"in": REQUEST, "out": RESPONSE}
        if mode != "all":
            del self._types["out" if mode == "request" else "in"]
        self._shared = {"Specversion": "1.0", "Source": server_name, "Inferenceservicename": server_name}
        if where := namespace():
            self._shared["Namespace"] = where
        self._kept = self._freed = 0
        super().__init__(url)

    @property
    def room(self) -> int:
        """The number of free bytes in the buffer."""
        return MAX_BYTES - self._kept + self._freed

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes of the buffer. Returns False if it does not have enough space."""
        if size > self.room:
            return False
        self._kept += size
        return True

    def release(self, contents: RecordedContents) -> None:
        """Free the buffer space of contents that will not be sent."""
        self._kept -= contents.kept

    def enqueue_events(self, contents: RecordedContents, attributes: Mapping[str, str], door: str) -> None:
        """Enqueue the events of a recording."""
        headers = _headers(contents.request)
        id = headers.get("ce-id", "")[:MAX_TEXT] or attributes["id"]
        kept = contents.kept
        for direction, type in self._types.items():
            side = contents.sides[direction]
            named = {**self._shared, **attributes, "id": id, "type": type, "size": str(side.size)}
            if side.dropped:
                named["dropped"] = str(side.dropped)
            sent = {f"Ce-{name.capitalize()}": quote(value, _PRINTABLE) for name, value in named.items()}
            head = headers if direction == "in" else _headers(contents.head)
            sent["Content-Type"] = (
                CONTENT_TYPES.get(door) or head.get("content-type", "application/json")[:MAX_TEXT]
            )
            if self.put(CloudEvent(sent, side.body(door), kept)):
                kept = 0
        self._kept -= kept

    def write(self, batch: list[CloudEvent]) -> None:
        for event in batch:
            refused = self._refused
            try:
                self._send(event, self.lost(refused))
            except Exception as error:  # The thread continues with the next event.
                self._connection.close()
                self.lose(1, str(error) or type(error).__name__)
            else:
                self.settle(refused)
            self._freed += event.kept

    def _send(self, event: CloudEvent, lost: int) -> None:
        """Send an event. Retries once if it reuses a connection, which the receiver may have closed."""
        headers = {**event.headers, "Ce-Lost": str(lost)} if lost else event.headers
        again = self._connection.sock is not None
        while True:
            try:
                self._connection.request("POST", self._path, event.body, headers)
                answer = self._connection.getresponse()
                until = monotonic() + SECONDS
                while answer.read1(MAX_ANSWER) and monotonic() < until:
                    pass
                break
            except (OSError, HTTPException):
                if not again:
                    raise
                again = False
                self._connection.close()
        if not answer.isclosed():
            self._connection.close()
        if not 200 <= answer.status < 300:
            raise HTTPException(f"the answer is {answer.status}")

    def close(self, seconds: float | None = SECONDS) -> None:
        super().close(seconds)
        if not self._thread.is_alive():
            self._connection.close()
        if lost := self.lost(self._refused) + self._records.qsize():
            self.logger.error("%s: records lost at shutdown: %d", self._target, lost)


def _headers(head: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a message head, or an empty dictionary without a head."""
    return dict(msgspec.json.decode(head["headers"])) if head else {}
