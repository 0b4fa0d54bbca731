"""Writers: what leaves together, how long a stream keeps the event loop, who is dropped.

`server/http2` has one of its own: it knows nothing of the package around it, and each of its writes serves many
streams, whose windows say what may leave.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Hashable
from time import perf_counter
from types import coroutine
from typing import Any, ClassVar, Protocol

TOGETHER_BYTES = 32 * 1024
"""Bytes of small messages that leave together, and one message more: the system call is most of what each costs."""

WAITED_SECONDS = 0.0001
"""Seconds after which a message leaves alone: it has been waited for."""

TURN_SECONDS = 0.001
"""Seconds that a stream may go on without letting others run: a model that never waits would keep the loop."""

OWED_BYTES = 64 * 1024
"""Bytes to a client that does not read, above which nothing more is read from it."""


class Source(Protocol):
    """A stream: a reply, or events that are recorded."""

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def aclose(self, error: BaseException | None) -> None: ...


class Turn:
    """How long a stream has kept the event loop."""

    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = perf_counter()  # the clock of uvloop stands still while a callback runs

    async def end(self) -> None:
        """Let others run, if this stream has not for a while."""
        if perf_counter() - self._began > TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = perf_counter()


class Gathered:
    """Messages that leave together. Who gathers them sees that they leave by the end of this turn of the event loop."""

    __slots__ = ("_last", "_since", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self._last = self._since = 0.0

    def __bool__(self) -> bool:
        return bool(self.pieces)

    @property
    def full(self) -> bool:
        """Whether so much is there that it leaves now."""
        return self.size > TOGETHER_BYTES

    def waits(self, size: int, seconds: float = WAITED_SECONDS) -> bool:
        """Whether a message waits for others.

        It does not `seconds` after the one before it, nor if it is large, nor behind one that has waited for long: the
        loop may not turn while a model computes.
        """
        now = perf_counter()
        took, self._last = now - self._last, now
        if not self.pieces:
            self._since = now
        return took <= seconds and self.size + size <= TOGETHER_BYTES and now - self._since <= TURN_SECONDS

    @staticmethod
    def takes(size: int) -> bool:
        """Whether a message may leave with those before it: larger ones are not copied."""
        return size <= TOGETHER_BYTES

    def add(self, size: int, *pieces: bytes) -> None:
        self.pieces += pieces
        self.size += size

    def take(self) -> bytes:
        """What is about to leave."""
        taken = b"".join(self.pieces)
        self.pieces.clear()
        self.size = 0
        return taken


async def give(reply: Source, take: Callable[[Any], Awaitable[None] | None]) -> None:
    """Give each response to `take`, which returns what comes before the next one: nothing, or an awaitable.

    `reply.aclose(None)` is one, for a client that wants no further response.
    """
    turned = perf_counter()  # the clock of uvloop stands still while a callback runs
    async for response in reply:
        waiting = take(response)
        # Freed now: with hundreds of streams it would leave the core's caches before the next one.
        del response
        if waiting is not None:
            await waiting
        if perf_counter() - turned > TURN_SECONDS:
            await asyncio.sleep(0)
            turned = perf_counter()


class Holdable(Protocol):
    """Reading from a connection, which stops while there is a reason to hold it."""

    def hold(self, reason: Hashable) -> None: ...

    def release(self, reason: Hashable) -> None: ...


class Owed:
    """Bytes to a client that does not read, which stop the reading from it while they are many."""

    __slots__ = ("_bytes", "_reading")

    def __init__(self, reading: Holdable) -> None:
        self._reading = reading
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count bytes to send, or sent ones if `size` is negative."""
        self._bytes += size
        if self._bytes > OWED_BYTES:
            self._reading.hold(Owed)
        elif size < 0:
            self._reading.release(Owed)

    def clear(self) -> None:
        """The client has read."""
        self._bytes = 0
        self._reading.release(Owed)


class StallGuard:
    """Drops a client that has read nothing for `stall` seconds. A single timer watches a whole stream."""

    kind: ClassVar[str] = "stream"
    logger: ClassVar[logging.Logger]

    def __init__(self, stall: float, interval: float) -> None:
        """`idle` is called about every `interval` seconds in which nothing waits for the client."""
        self._stall = stall
        self._interval = min(interval, stall / 4)
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        """When the client stopped reading what waits for it; None while nothing waits."""
        self._timer: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Let the client go."""
        raise NotImplementedError

    def idle(self, now: float) -> bool:
        """Nothing waits for the client. False if the guard is to look no more."""
        return True

    def _guard(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if self._waiting_since is None:
            if not self.idle(now):
                return
        elif now - self._waiting_since >= self._stall:
            self.logger.warning(
                "a %s's client has read nothing for %g s; dropping it", self.kind, self._stall
            )
            self.drop()
            return
        self._guard()

    def _leave_alone(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Recipient(Protocol):
    """Who gets a stream."""

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        """Send a chunk; None if it is sent, else an awaitable that sends it when the client reads."""

    def abort(self) -> None:
        """Drop the client."""


class Writer(Protocol):
    """Writes each item of a source."""

    def __call__(self, response: Any, /) -> bytes | None:
        """The bytes of an item; None to end the stream."""

    def end(self) -> bytes:
        """What follows the last item."""


class ByteCount(Protocol):
    """Counts bytes that a client gets."""

    sent: int


class StreamWriter(StallGuard):
    """One stream on its way to one client.

    Items that a model makes without waiting leave together, because the system call is most of what an item costs; as
    soon as the model waits for anything, whatever is there has left. The first leaves alone. `_sign` leaves when the
    model is silent for `heartbeat` seconds.
    """

    usage: ByteCount | None = None
    """Where the bytes of items are added."""

    def __init__(self, recipient: Recipient, heartbeat: float, stall: float) -> None:
        super().__init__(stall, heartbeat or stall)
        self._recipient = recipient
        self._heartbeat = heartbeat
        self._events: list[bytes] = []
        self._size = 0
        self._waited = False
        self._last_sent = self._loop.time()
        self._beat: asyncio.Task[None] | None = None
        self._sign = b""
        """What says that a silent stream is alive; empty for nothing."""
        self._escape: Callable[[bytes], bytes] | None = None
        """What escapes characters beyond ASCII at which a reader of the stream might end a line."""

    async def _write_all(self, reply: Source, writer: Writer) -> None:
        """Send every item of `reply`. What is left when this ends, or fails, leaves with the next `_flush`."""
        self._guard()
        try:
            await self._flushed_while_waiting(self._run(reply, writer))
        finally:
            self._leave_alone()
            if self._beat is not None:
                self._beat.cancel()

    async def _run(self, reply: Source, writer: Writer) -> None:
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
            self._size += len(closing)

    async def _leave(self, reply: Source, writer: Writer) -> None:
        """End a stream before its model does, because the client has all that it wants."""
        self._events.append(closing := writer.end())
        self._size += len(closing)
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
        if self._escape is not None and not body.isascii():
            body = self._escape(body)
        if self.usage is not None:
            self.usage.sent += self._size
        self._size = 0
        self._last_sent = self._loop.time()
        waiting = self._recipient.send(body, last)
        return None if waiting is None else self._sent(waiting)

    async def _sent(self, waiting: Awaitable[None]) -> None:
        self._waiting_since = self._last_sent
        await waiting
        self._waiting_since = None

    def drop(self) -> None:
        self._recipient.abort()

    def _is_silent(self, now: float) -> bool:
        """Whether a heartbeat is due."""
        return bool(self._heartbeat and self._sign) and now - self._last_sent >= self._heartbeat * 0.9

    def idle(self, now: float) -> bool:
        if self._is_silent(now):
            self._events.append(self._sign)
            if (full := self._flush()) is not None:
                self._beat = self._loop.create_task(full)
        return True
