"""Streams over HTTP: each response one server-sent event, on the wire as soon as its model pauses."""

import logging
from typing import Protocol

from ...concurrency.outgoing import Source, StreamWriter, Writer
from ...errors import InferstreamError
from .exchange import Exchange
from .messages import RawHeaders, wrap

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
    """One stream of events to one client. `headers` go beside those that make the answer a stream of events."""

    logger = logging.getLogger("inferstream.rest")

    def __init__(self, exchange: Exchange, headers: RawHeaders, heartbeat: float, stall: float) -> None:
        super().__init__(exchange, heartbeat, stall)
        self._exchange = exchange
        self._headers = headers

    async def run(self, reply: Source, asked: Writing, events: Writer) -> None:
        """Send every response of `reply` as an event; a failure becomes the last one, and the end is clean.

        Bytes that are no events have no place for a failure: the client sees that they are cut off.
        """
        self._sign = asked.heartbeat
        self._exchange.open([(b"content-type", asked.media_type), *HEADERS, *self._headers])
        try:
            await self._write_all(reply, events)
        except Exception as error:
            if (last := asked.failure(wrap(error))) is None:
                self._exchange.abort()
                return
            self._events.append(last)
        if (full := self._flush(last=True)) is not None:
            await full
