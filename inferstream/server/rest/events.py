"""Streams over HTTP: each response is one server-sent event, sent as soon as the model yields control."""

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
"""Media types of JSON streams, which many clients split at line ends."""

HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Writing(Protocol):
    """The format of a stream: a `dialects.base.ParsedRequest` or an `EventReader`."""

    @property
    def media_type(self) -> bytes:
        """The media type of the stream."""

    @property
    def heartbeat(self) -> bytes:
        """The bytes sent while the model is silent, or empty."""

    def failure(self, error: InferstreamError) -> bytes | None: ...


class EventStream(StreamWriter):
    """One event stream to one client.

    The head is sent with the first event, or with the first heartbeat if the model is silent until then.
    """

    logger = logging.getLogger("inferstream.rest")

    def __init__(self, exchange: Exchange, asked: Writing, heartbeat: float, stall: float) -> None:
        super().__init__(exchange, heartbeat, stall)
        self._exchange = exchange
        self._asked = asked
        self._sign = asked.heartbeat
        self._headers: Callable[[], RawHeaders] = list
        self.is_open = False
        """Whether the head of the response has been sent."""

    async def wait(self, opening: Awaitable[Begun], headers: Callable[[], RawHeaders]) -> Begun | None:
        """Wait for `opening` and return its result.

        If a heartbeat is due before that, the head is sent with `headers()`.

        If `opening` fails, raises its error. If the head has been sent by then, sends the error as an event
        instead and returns None.
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
            self._stop_timer()

    async def run(self, reply: Source, asked: Writing, events: Writer, headers: RawHeaders) -> None:
        """Send every response of `reply` as an event. An error becomes the last event of a complete body.

        `headers` are added to the headers of an event stream.
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
        """Send the remaining events and close the body.

        If the format has no event for an error, the connection is aborted, so that the client sees a
        truncated body.
        """
        if error is not None:
            if (last := self._asked.failure(wrap(error))) is None:
                self._exchange.abort()
                return
            self._events.append(last)
        if (full := self._flush(last=True)) is not None:
            await full
