"""The access log: a record of each call that has ended, the places where records go, and its subscribers."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Self

import msgspec

from ..concurrency.channel import Channel

ACCESS = "inferstream.access"
"""The logger of the access log."""

logger = logging.getLogger(ACCESS)

LINE = "%s %s %s%s%s: %s, %.1f ms, %d %s%s"
"""Dialect, operation, model, its version, status, time, responses, and the client if it is known."""


class AccessRecord(msgspec.Struct, array_like=True, gc=False):
    """A call that has ended, or a request that was refused before it became a call."""

    time: float
    """When it ended, in seconds since 1970."""
    face: str
    """The dialect that it came in; `process` for a call of this process."""
    operation: str
    """`infer`, `stream`, or the method and path of a request that is no inference."""
    model: str
    version: str
    status: str
    """`success`, `cancelled` if the client left, or the code of the error."""
    seconds: float
    items: int
    """Responses."""
    principal: str
    id: str
    """The id of the V2 request."""
    trace_id: str
    error: str
    """The message of the error; empty without one."""
    request_id: str = ""
    """The X-Request-Id; empty without one."""

    def fields(self) -> dict[str, str | int | float]:
        """The record as an object for logs in JSON, without what is empty."""
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
        """The record of `fields` and a `time`. A missing field is empty."""
        values: dict[str, Any] = {
            name: fields.get(name, 0 if kind in (int, float) else "")
            for name, kind in cls.__annotations__.items()
        }
        return cls(**{**values, "seconds": fields.get("ms", 0.0) / 1000})


Sink = Callable[[AccessRecord], object]
"""Takes a record. It may not raise or wait."""


class AccessLines:
    """The sinks of one application or front end. `changed` is called when the first one comes or the last one goes."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks
        self.on = bool(sinks)
        """Whether any sink wants records."""
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
    """Log a record on the logger `inferstream.access`."""
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


MOST_WAITING = 1024
"""Records that wait for one subscriber. Further ones are dropped and counted."""

MOST_SUBSCRIBERS = 16


class Subscriber(Channel[AccessRecord]):
    """Reads records as they come. A slow reader loses records, and learns how many."""

    def __init__(self, model: str | None, errors: bool) -> None:
        super().__init__(MOST_WAITING)
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

    def lost(self, count: int) -> None:
        """Records were dropped on their way here."""
        self._dropped += count

    async def read(self, seconds: float) -> tuple[list[AccessRecord], int]:
        """The records since the last time, after at most so many seconds, and how many were dropped."""
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
    """The subscribers at one front end. They see the records of all front ends."""

    def __init__(self, lines: AccessLines) -> None:
        self._lines = lines
        self._subscribers: list[Subscriber] = []
        self.changed: Callable[[bool], object] = lambda _: None
        """Called when the first one comes and when the last one goes."""

    @property
    def full(self) -> bool:
        """Whether there are as many as may be."""
        return len(self._subscribers) >= MOST_SUBSCRIBERS

    def open(self, model: str | None, errors: bool) -> Subscriber:
        """A new subscriber, until `close`."""
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
        """Show the subscribers records of another front end."""
        for subscriber in self._subscribers:
            subscriber.lost(dropped)
            for record in records:
                subscriber.put(record)

    def end(self) -> None:
        for subscriber in self._subscribers:
            subscriber.end()
