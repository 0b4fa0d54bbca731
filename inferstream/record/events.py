"""CloudEvents of requests and responses, as KServe's logger sends them: of streams at their end, of failures too."""

import logging
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from inferstream.ext.telemetry import BackgroundWriter

from ..dataplane.cloudevents import namespace

REQUEST, RESPONSE = "org.kubeflow.serving.inference.request", "org.kubeflow.serving.inference.response"

MOST_BYTES = 64 * 2**20
"""Bytes of contents that wait for the end of their stream, or for the URL. Further ones are dropped and counted."""

LARGEST = 4 * 2**20
"""Bytes of the contents of one recording. Events are kept in memory, and brokers refuse larger ones."""

SECONDS = 5.0
"""Seconds in which the other side answers, because those behind wait; and in which the rest is sent at the end."""

MOST_ANSWER = 65536
"""Bytes of an answer that are read at once. It is read to its end, so that its connection may be used again."""

SHARES = 8
"""One recording takes at most this part of the room that is left: connections that stay leave some for others."""

MOST_TEXT = 256
"""Characters of the client's id and content type that an event has."""

CONTENT_TYPES = {"grpc": "application/grpc+proto", "websocket": "application/x-ndjson"}
"""Of the contents of connections; those of HTTP say what they are."""

_PRINTABLE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"
"""What is not percent-encoded in a header of a CloudEvent, beside letters and digits."""


class DirectedContent:
    """The contents of one direction."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = self.dropped = 0
        self.hidden = False
        """Whether some of it is not recorded, so that the rest would be a torn text."""

    def body(self, door: str) -> bytes:
        """All contents: messages of gRPC with the lengths that it sends before each, those of a WebSocket as lines."""
        if self.hidden:
            return b""
        if door == "grpc":
            return b"".join(b"\0" + len(part).to_bytes(4, "big") + part for part in self.parts)
        return (b"\n" if door == "websocket" else b"").join(self.parts)


class RecordedContents:
    """What the events of a recording are made of: its heads, and its contents in both directions."""

    def __init__(self, sink: "EventSink", request: Mapping[str, Any] | None) -> None:
        self._sink = sink
        self.request = request or {}
        self.head: Mapping[str, Any] = {}
        self.sides = {"in": DirectedContent(), "out": DirectedContent()}
        self.kept = 0

    def add(self, direction: str, content: Any) -> None:
        """Keep a content, or count its bytes where it is not recorded."""
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
        room = min(LARGEST, self._sink.room // SHARES)
        if self.kept + len(part) > room or not self._sink.keep(len(part)):
            side.dropped += 1
            return
        self.kept += len(part)
        side.parts.append(part)


class CloudEvent(NamedTuple):
    """An event in HTTP's binary mode. `kept` bytes are free when it is sent or lost."""

    headers: dict[str, str]
    body: bytes
    kept: int


class EventSink(BackgroundWriter[CloudEvent]):
    """Sends events to a URL, one after the other. A URL that is slow or dead loses events, and holds nothing."""

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
        """Bytes that contents may take now."""
        return MOST_BYTES - self._kept + self._freed

    def keep(self, size: int) -> bool:
        """Take room for a content, if there is some."""
        if size > self.room:
            return False
        self._kept += size
        return True

    def release(self, contents: RecordedContents) -> None:
        """Free the room of contents that are not sent."""
        self._kept -= contents.kept

    def end(self, contents: RecordedContents, attributes: Mapping[str, str], door: str) -> None:
        """Send the events of a recording soon."""
        headers = _headers(contents.request)
        id = headers.get("ce-id", "")[:MOST_TEXT] or attributes["id"]
        kept = contents.kept
        for direction, type in self._types.items():
            side = contents.sides[direction]
            named = {**self._shared, **attributes, "id": id, "type": type, "size": str(side.size)}
            if side.dropped:
                named["dropped"] = str(side.dropped)
            sent = {f"Ce-{name.capitalize()}": quote(value, _PRINTABLE) for name, value in named.items()}
            head = headers if direction == "in" else _headers(contents.head)
            sent["Content-Type"] = (
                CONTENT_TYPES.get(door) or head.get("content-type", "application/json")[:MOST_TEXT]
            )
            if self.put(CloudEvent(sent, side.body(door), kept)):
                kept = 0
        self._kept -= kept

    def write(self, batch: list[CloudEvent]) -> None:
        for event in batch:
            refused = self._refused
            try:
                self._send(event, self.lost(refused))
            except Exception as error:  # the thread goes on with the next event
                self._connection.close()
                self.lose(1, str(error) or type(error).__name__)
            else:
                self.settle(refused)
            self._freed += event.kept

    def _send(self, event: CloudEvent, lost: int) -> None:
        """Send an event, once more where the other side may have closed a connection that waited for it."""
        headers = {**event.headers, "Ce-Lost": str(lost)} if lost else event.headers
        again = self._connection.sock is not None
        while True:
            try:
                self._connection.request("POST", self._path, event.body, headers)
                answer = self._connection.getresponse()
                until = monotonic() + SECONDS
                while answer.read1(MOST_ANSWER) and monotonic() < until:
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
            self.logger.error("%s: records that are lost at the end: %d", self._target, lost)


def _headers(head: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a head; none where there is no head."""
    return dict(msgspec.json.decode(head["headers"])) if head else {}
