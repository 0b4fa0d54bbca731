"""Streams over HTTP: each response one server-sent event, on the wire as soon as its model pauses."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from ...concurrency.outgoing import Source, StreamWriter, Writer
from ...errors import InferstreamError
from ...protos.sse import escape_line_ends
from .exchange import Exchange
from .messages import RawHeaders, wrap

Begun = TypeVar("Begun")

IN_LINES = (b"text/event-stream", b"application/x-ndjson")
"""Media types of streams of JSON, which many clients cut at the ends of lines."""

HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Writing(Protocol):
    """How the client of a stream wants it: a `dialects.base.ParsedRequest`, or what passes events on."""

    @property
    def media_type(self) -> bytes:
        """The media type of the stream."""

    @property
    def heartbeat(self) -> bytes:
        """What is sent while the model is silent; empty for nothing."""

    def failure(self, error: InferstreamError) -> bytes | None: ...


class EventStream(StreamWriter):
    """One stream of events to one client.

    Its head leaves with the first event, or with the first heartbeat if the model is silent before it.
    """

    logger = logging.getLogger("inferstream.rest")

    def __init__(self, exchange: Exchange, asked: Writing, heartbeat: float, stall: float) -> None:
        super().__init__(exchange, heartbeat, stall)
        self._exchange = exchange
        self._asked = asked
        self._sign = asked.heartbeat
        self._headers: Callable[[], RawHeaders] = list
        self.is_open = False
        """Whether its head has left."""

    async def wait(self, opening: Awaitable[Begun], headers: Callable[[], RawHeaders]) -> Begun | None:
        """The reply once it has begun. `headers` are those of a head that leaves before.

        Raises the error of a reply that does not begin. If the head has left, the error is an event, and this is None.
        """
        self._headers = headers
        self._guard()
        try:
            return await opening
        except Exception as error:
            if not self.is_open:
                raise
            await self._end(error)
            return None
        finally:
            self._leave_alone()

    async def run(self, reply: Source, asked: Writing, events: Writer, headers: RawHeaders) -> None:
        """Send every response of `reply` as an event; a failure becomes the last one, and the end is clean.

        `headers` go beside those that make the answer a stream of events.
        """
        self._asked = asked
        if not self.is_open:
            self._open(headers)
        try:
            await self._write_all(reply, events)
        except Exception as error:
            await self._end(error)
        else:
            await self._end()

    def idle(self, now: float) -> bool:
        if not self.is_open and self._is_silent(now):
            self._open(self._headers())
        return super().idle(now)

    def _open(self, headers: RawHeaders) -> None:
        self.is_open = True
        self._escape = escape_line_ends if self._asked.media_type.startswith(IN_LINES) else None
        self._exchange.open([(b"content-type", self._asked.media_type), *HEADERS, *headers])

    async def _end(self, error: Exception | None = None) -> None:
        """Send the rest. Bytes that are no events have no place for an error: the client sees that they are cut off."""
        if error is not None:
            if (last := self._asked.failure(wrap(error))) is None:
                self._exchange.abort()
                return
            self._events.append(last)
        if (full := self._flush(last=True)) is not None:
            await full
