"""The access log: a record of each call that has ended, and the places where records go."""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from .console import ACCESS, console_of

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
        found: dict[str, str | int | float] = {
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
        return {name: value for name, value in found.items() if value != ""}


Sink = Callable[[AccessRecord], object]
"""Takes a record. It may not raise or wait."""


class AccessLines:
    """The sinks of one application or front end. `changed` is called when the first one comes or the last one goes."""

    def __init__(self, logged: bool) -> None:
        self._sinks: tuple[Sink, ...] = (_log_sink(),) if logged else ()
        self.on = logged
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


def _log_sink() -> Sink:
    """The console's own lines where the command has set them up, else records of the logger."""
    console = console_of(logger)
    return log if console is None else console.put


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
