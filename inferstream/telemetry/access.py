"""The access log: records of finished calls, and the sinks and subscribers that receive them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Self

import msgspec

from ..concurrency.channel import Channel

ACCESS = "inferstream.access"
"""The name of the access logger."""

logger = logging.getLogger(ACCESS)

LINE = "%s %s %s%s%s: %s, %.1f ms, %d %s%s"
"""API, operation, model, version, status, duration, number of responses, and the client if it is known."""


class AccessRecord(msgspec.Struct, array_like=True, gc=False):
    """A call that has finished, or a request that was rejected before it became a call."""

    time: float
    """The end of the call, in seconds since the epoch."""
    face: str
    """The API of the request, or `process` for an in-process call."""
    operation: str
    """`infer`, `stream`, or the method and path of a request other than inference."""
    model: str
    version: str
    status: str
    """`success`, `cancelled` if the client disconnected, or the error code."""
    seconds: float
    items: int
    """The number of responses."""
    principal: str
    id: str
    """The id of the V2 request."""
    trace_id: str
    error: str
    """The error message, or ""."""
    request_id: str = ""
    """The X-Request-Id, or ""."""

    def fields(self) -> dict[str, str | int | float]:
        """Return the non-empty fields, as an object for JSON logs."""
        fields: dict[str, str | int | float] = {
            "face": self.face,
            "operation": self.operation,
            "model": self.model,
            "version": self.version,
            "status": self.status,
            "ms": round(self.seconds * 1000, 3),
            "items": self.items,
            "principal": self.principal,
            "id": self.id,
            "trace_id": self.trace_id,
            "request_id": self.request_id,
            "error": self.error,
        }
        return {name: value for name, value in fields.items() if value != ""}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Build a record from `fields`, which include `time`. Missing fields are empty."""
        values: dict[str, Any] = {
            name: fields.get(name, 0 if kind in (int, float) else "")
            for name, kind in cls.__annotations__.items()
        }
        return cls(**{**values, "seconds": fields.get("ms", 0.0) / 1000})


Sink = Callable[[AccessRecord], object]
"""A function that receives a record. It must not raise or block."""


class AccessLines:
    """The sinks of one application or front-end process.

    `changed` is called when the first sink is added and when the last one is removed.
    """

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks
        self.on = bool(sinks)
        """Whether any sink has been added."""
        self.changed: Callable[[bool], object] = lambda _: None

    def add(self, sink: Sink) -> None:
        self._set((*self._sinks, sink))

    def remove(self, sink: Sink) -> None:
        self._set(tuple(each for each in self._sinks if each != sink))

    def _set(self, sinks: tuple[Sink, ...]) -> None:
        self._sinks = sinks
        if self.on != bool(sinks):
            self.on = bool(sinks)
            self.changed(self.on)

    def put(self, record: AccessRecord) -> None:
        for sink in self._sinks:
            sink(record)


def log(record: AccessRecord) -> None:
    """Log a record with the logger `inferstream.access`."""
    if not logger.isEnabledFor(logging.INFO):
        return
    extra: dict[str, Any] = {"fields": record.fields()}
    logger.info(
        LINE,
        record.face,
        record.operation,
        record.model,
        ":" if record.version else "",
        record.version,
        record.status,
        record.seconds * 1000,
        record.items,
        "item" if record.items == 1 else "items",
        f", {record.principal}" if record.principal else "",
        extra=extra,
    )


MAX_WAITING = 1024
"""The maximum number of records waiting for one subscriber. Additional ones are dropped and counted."""

MAX_SUBSCRIBERS = 16


class Subscriber(Channel[AccessRecord]):
    """Receives records as they are written. If it reads too slowly, records are dropped and counted."""

    def __init__(self, model: str | None, errors: bool) -> None:
        super().__init__(MAX_WAITING)
        self._model = model
        self._errors = errors
        self._dropped = 0

    def put(self, record: AccessRecord) -> None:
        if (self._errors and record.status == "success") or self._model not in (None, record.model):
            return
        if self.has_room():
            super().put(record)
        else:
            self._dropped += 1

    def count_lost(self, count: int) -> None:
        """Count records that were dropped before they reached this subscriber."""
        self._dropped += count

    async def read(self, seconds: float) -> tuple[list[AccessRecord], int]:
        """Return the records since the last call, and the number of dropped ones.

        Waits up to `seconds` for the first record.
        """
        if self.open and not self._items:
            try:
                async with asyncio.timeout(seconds):
                    await self.news()
            except TimeoutError:
                return [], 0
        records = list(self._items)
        self._items.clear()
        dropped, self._dropped = self._dropped, 0
        return records, dropped


class Subscribers:
    """The subscribers in one front-end process. They receive the records of all front-end processes."""

    def __init__(self, lines: AccessLines) -> None:
        self._lines = lines
        self._subscribers: list[Subscriber] = []
        self.changed: Callable[[bool], object] = lambda _: None
        """Called when the first subscriber is added and when the last one is removed."""

    @property
    def full(self) -> bool:
        """Whether the maximum number of subscribers is reached."""
        return len(self._subscribers) >= MAX_SUBSCRIBERS

    def open(self, model: str | None, errors: bool) -> Subscriber:
        """Add a subscriber. Pass it to `close` when done."""
        subscriber = Subscriber(model, errors)
        self._subscribers.append(subscriber)
        self._lines.add(subscriber.put)
        if len(self._subscribers) == 1:
            self.changed(True)
        return subscriber

    def close(self, subscriber: Subscriber) -> None:
        self._subscribers.remove(subscriber)
        self._lines.remove(subscriber.put)
        if not self._subscribers:
            self.changed(False)

    def put_foreign(self, records: list[AccessRecord], dropped: int) -> None:
        """Pass records from another front-end process to the subscribers."""
        for subscriber in self._subscribers:
            subscriber.count_lost(dropped)
            for record in records:
                subscriber.put(record)

    def end(self) -> None:
        for subscriber in self._subscribers:
            subscriber.end()
