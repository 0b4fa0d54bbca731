"""Streams over HTTP: each response one server-sent event, on the wire as soon as its model pauses."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Generator
from time import perf_counter
from types import coroutine
from typing import Any, Protocol

from ...concurrency.outgoing import TOGETHER_BYTES, TURN_SECONDS, WAITED_SECONDS, Source, StallGuard
from ...errors import InferstreamError
from .exchange import Exchange
from .messages import RawHeaders, wrap

HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Writer(Protocol):
    """Writes each item of a source as an event: a `dialects.base.Events`, or what passes events on."""

    def __call__(self, response: Any, /) -> bytes | None: ...

    def end(self) -> bytes: ...


class Writing(Protocol):
    """How the client of a stream wants it: a `dialects.base.ParsedRequest`, or what passes events on."""

    @property
    def media_type(self) -> bytes:
        """The media type of the stream."""

    @property
    def heartbeat(self) -> bytes:
        """What is sent while the model is silent; empty for nothing."""

    def events(self) -> Writer: ...

    def failure(self, error: InferstreamError) -> bytes: ...


class EventStream(StallGuard):
    """One stream on its way to one client.

    Events that a model makes without waiting leave together, because the system call is most of what
    an event costs; as soon as the model waits for anything, whatever is there has left. The first leaves alone.
    The dialect's heartbeat leaves when the model is silent for `heartbeat` seconds.
    `headers` go beside those that make the answer a stream of events.
    """

    logger = logging.getLogger("inferstream.rest")

    def __init__(self, exchange: Exchange, headers: RawHeaders, heartbeat: float, stall: float) -> None:
        super().__init__(stall, heartbeat or stall)
        self._exchange = exchange
        self._headers = headers
        self._heartbeat = heartbeat
        self._events: list[bytes] = []
        self._size = 0
        self._waited = False
        self._last_sent = self._loop.time()
        self._beat: asyncio.Task[None] | None = None
        self._sign = b""
        """What says that a silent stream is alive."""

    async def run(self, reply: Source, asked: Writing) -> None:
        """Send every response of `reply` as an event; a failure becomes the last one, and the end is clean."""
        self._sign = asked.heartbeat
        self._exchange.open([(b"content-type", asked.media_type), *HEADERS, *self._headers])
        self._guard()
        try:
            await self._flushed_while_waiting(self._run(reply, asked))
        except Exception as error:
            self._events.append(asked.failure(wrap(error)))
        finally:
            self._leave_alone()
            if self._beat is not None:
                self._beat.cancel()
        if (full := self._flush(last=True)) is not None:
            await full

    async def _run(self, reply: Source, asked: Writing) -> None:
        writer = asked.events()
        write = writer.__call__  # a method, because a call of an object costs 40 ns more
        last, turned = 0.0, perf_counter()  # the first event leaves alone, for the client waits for it
        async for response in reply:
            event = write(response)
            # Freed now: with hundreds of streams it would leave the core's caches before the next one.
            del response
            if event:
                self._events.append(event)
                self._size += len(event)
            elif event is None:
                await self._leave(reply, writer)
                return
            now = perf_counter()
            alone = self._size > TOGETHER_BYTES or (now - last > WAITED_SECONDS and not self._waited)
            if alone and (full := self._flush()) is not None:
                await full
            if self._waited:
                self._waited, turned = False, now
            elif now - turned > TURN_SECONDS:
                # A generator that never waits would otherwise keep the loop, and nobody could
                # notice that its client has left.
                if (full := self._flush()) is not None:
                    await full
                await asyncio.sleep(0)
                self._waited = False
                turned = now = perf_counter()
            last = now
        if closing := writer.end():
            self._events.append(closing)

    async def _leave(self, reply: Source, writer: Writer) -> None:
        """End a stream before its model does, because the client has all that it wants."""
        self._events.append(writer.end())
        if (full := self._flush()) is not None:
            await full
        await reply.aclose(None)

    @coroutine
    def _flushed_while_waiting(self, running: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        """Await `running`; whenever it is about to wait, for its model above all, what it has made so far leaves.

        Looking at each step of the reply instead, to see whether it waits, cost an exception per event.
        """
        error: BaseException | None = None
        while True:
            try:
                waited_for = running.send(None) if error is None else running.throw(error)
            except StopIteration:
                return
            finally:
                error = None  # its traceback refers to this frame, which would be a cycle
            try:
                if self._events and (full := self._flush()) is not None:
                    yield from full.__await__()
                yield waited_for
                self._waited = True
            except BaseException as interruption:  # `running` gets every one
                error = interruption

    def _flush(self, last: bool = False) -> Coroutine[Any, Any, None] | None:
        """Send what is there; None once it has left, else what waits for the client to read."""
        if not self._events and not last:
            return None
        events = self._events
        body = events[0] if len(events) == 1 else b"".join(events)
        events.clear()
        self._size = 0
        self._last_sent = self._loop.time()
        waiting = self._exchange.send(body, last)
        return None if waiting is None else self._sent(waiting)

    async def _sent(self, waiting: Awaitable[None]) -> None:
        self._waiting_since = self._last_sent
        await waiting
        self._waiting_since = None

    def drop(self) -> None:
        self._exchange.abort()

    def idle(self, now: float) -> bool:
        if self._heartbeat and self._sign and now - self._last_sent >= self._heartbeat * 0.9:
            self._events.append(self._sign)
            if (full := self._flush()) is not None:
                self._beat = self._loop.create_task(full)
        return True
