"""Writers of outgoing streams: coalescing of messages, fairness between streams, and stalled clients.

`server/http2` has its own writer, because it is independent of the package, and because each of its writes
serves many streams, within their flow-control windows.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Hashable
from time import perf_counter
from types import coroutine
from typing import Any, ClassVar, Protocol

TOGETHER_BYTES = 32 * 1024
"""The maximum total size of messages that are sent together, in bytes.

Most of the cost of a message is the system call.
"""

WAITED_SECONDS = 0.0001
"""A message is sent immediately if the previous one is older than this, in seconds."""

TURN_SECONDS = 0.001
"""The time after which a stream yields to others, in seconds.

Otherwise, a model that never waits would block the event loop.
"""

OWED_BYTES = 64 * 1024
"""Unread bytes above which the server stops reading from a client."""


class Source(Protocol):
    """A stream: a reply, or recorded events."""

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def aclose(self, error: BaseException | None) -> None: ...


class Turn:
    """Measures how long a stream has occupied the event loop."""

    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = perf_counter()  # uvloop's clock does not advance during a callback

    async def end(self) -> None:
        """Yield to other tasks if this stream has not done so for `TURN_SECONDS`."""
        if perf_counter() - self._began > TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = perf_counter()


class Gathered:
    """Messages that are sent together. The caller must send them by the end of the current loop iteration."""

    __slots__ = ("_last", "_since", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self._last = self._since = 0.0

    def __bool__(self) -> bool:
        return bool(self.pieces)

    @property
    def full(self) -> bool:
        """Whether the messages are large enough to be sent now."""
        return self.size > TOGETHER_BYTES

    def can_wait(self, size: int, seconds: float = WAITED_SECONDS) -> bool:
        """Whether a message can wait for others.

        It cannot if the previous message was sent more than `seconds` ago, if it is large, or if an earlier
        message has already waited for a long time, because the loop may be blocked while a model computes.
        """
        now = perf_counter()
        took, self._last = now - self._last, now
        if not self.pieces:
            self._since = now
        return took <= seconds and self.size + size <= TOGETHER_BYTES and now - self._since <= TURN_SECONDS

    @staticmethod
    def fits(size: int) -> bool:
        """Whether a message can be sent with earlier ones. Larger messages are not copied."""
        return size <= TOGETHER_BYTES

    def add(self, size: int, *pieces: bytes) -> None:
        self.pieces += pieces
        self.size += size

    def take(self) -> bytes:
        """Remove and return all messages."""
        taken = b"".join(self.pieces)
        self.pieces.clear()
        self.size = 0
        return taken


async def for_each(reply: Source, take: Callable[[Any], Awaitable[None] | None]) -> None:
    """Pass each response to `take`, and await the awaitable that it returns, if any, before the next one.

    The awaitable can be `reply.aclose(None)` if the client wants no more responses.
    """
    turned = perf_counter()  # uvloop's clock does not advance during a callback
    async for response in reply:
        waiting = take(response)
        # Freed now: with hundreds of streams, it would leave the CPU caches before the next response.
        del response
        if waiting is not None:
            await waiting
        if perf_counter() - turned > TURN_SECONDS:
            await asyncio.sleep(0)
            turned = perf_counter()


class Holdable(Protocol):
    """A connection from which the server does not read while it is held for at least one reason."""

    def hold(self, reason: Hashable) -> None: ...

    def release(self, reason: Hashable) -> None: ...


class Owed:
    """Counts bytes that a client has not read. Above `OWED_BYTES`, reading from the client is paused."""

    __slots__ = ("_bytes", "_reading")

    def __init__(self, reading: Holdable) -> None:
        self._reading = reading
        self._bytes = 0

    def add(self, size: int) -> None:
        """Count bytes to send, or sent bytes if `size` is negative."""
        self._bytes += size
        if self._bytes > OWED_BYTES:
            self._reading.hold(Owed)
        elif size < 0:
            self._reading.release(Owed)

    def clear(self) -> None:
        """Called when the client has read everything."""
        self._bytes = 0
        self._reading.release(Owed)


class StallGuard:
    """Drops a client that has read nothing for `stall` seconds, with a single timer per stream."""

    kind: ClassVar[str] = "stream"
    logger: ClassVar[logging.Logger]

    def __init__(self, stall: float, interval: float) -> None:
        """`idle` is called about every `interval` seconds while no data waits for the client."""
        self._stall = stall
        self._interval = min(interval, stall / 4)
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        """The time at which the client stopped reading, or None while no data is waiting."""
        self._timer: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Disconnect the client."""
        raise NotImplementedError

    def idle(self, now: float) -> bool:
        """Called while no data waits for the client. Return False to stop the timer."""
        return True

    def _guard(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._check_stall)

    def _check_stall(self) -> None:
        now = self._loop.time()
        if self._waiting_since is None:
            if not self.idle(now):
                return
        elif now - self._waiting_since >= self._stall:
            self.logger.warning(
                "%s: client has not read for %g s; closing the connection", self.kind, self._stall
            )
            self.drop()
            return
        self._guard()

    def _stop_timer(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Recipient(Protocol):
    """The receiver of a stream."""

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        """Send a chunk. Returns None if it is sent, or an awaitable that sends it when the client reads."""

    def abort(self) -> None:
        """Disconnect the client."""


class Writer(Protocol):
    """Serializes each item of a source."""

    def __call__(self, response: Any, /) -> bytes | None:
        """Return the bytes of an item, or None to stop the stream."""

    def end(self) -> bytes:
        """Return the bytes after the last item."""


class ByteCount(Protocol):
    """Counts the bytes that are sent to a client."""

    sent: int


class StreamWriter(StallGuard):
    """Sends one stream to one client.

    Items that a model produces without waiting are sent together, because most of the cost of an item is the
    system call. Everything is sent as soon as the model waits. The first item is sent immediately. `_sign` is
    sent if the model produces nothing for `heartbeat` seconds.
    """

    usage: ByteCount | None = None
    """The counter to which the bytes of items are added."""

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
        """The heartbeat of a silent stream. Empty if there is none."""
        self._escape: Callable[[bytes], bytes] | None = None
        """Escapes non-ASCII characters that a client could treat as line ends."""

    async def _write_all(self, reply: Source, writer: Writer) -> None:
        """Send every item of `reply`. After it returns or fails, the next `_flush` sends the rest."""
        self._guard()
        try:
            await self._flush_while_waiting(self._run(reply, writer))
        finally:
            self._stop_timer()
            if self._beat is not None:
                self._beat.cancel()

    async def _run(self, reply: Source, writer: Writer) -> None:
        write = writer.__call__  # a method, because calling an object takes 40 ns more
        last, turned = 0.0, perf_counter()  # the first event is sent immediately: the client waits for it
        async for response in reply:
            event = write(response)
            # Freed now: with hundreds of streams, it would leave the CPU caches before the next response.
            del response
            if event:
                self._events.append(event)
                self._size += len(event)
            elif event is None:
                await self._end_early(reply, writer)
                return
            now = perf_counter()
            alone = self._size > TOGETHER_BYTES or (now - last > WAITED_SECONDS and not self._waited)
            if alone and (full := self._flush()) is not None:
                await full
            if self._waited:
                self._waited, turned = False, now
            elif now - turned > TURN_SECONDS:
                # A generator that never waits would otherwise block the loop, and a disconnect of its client
                # could not be detected.
                if (full := self._flush()) is not None:
                    await full
                await asyncio.sleep(0)
                self._waited = False
                turned = now = perf_counter()
            last = now
        if closing := writer.end():
            self._events.append(closing)
            self._size += len(closing)

    async def _end_early(self, reply: Source, writer: Writer) -> None:
        """End a stream before its model does, because the client needs no more items."""
        self._events.append(closing := writer.end())
        self._size += len(closing)
        if (full := self._flush()) is not None:
            await full
        await reply.aclose(None)

    @coroutine
    def _flush_while_waiting(self, running: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        """Await `running`, and flush pending items whenever it is about to wait (mostly for its model)."""
        error: BaseException | None = None
        while True:
            try:
                waited_for = running.send(None) if error is None else running.throw(error)
            except StopIteration:
                return
            finally:
                error = None  # the traceback refers to this frame: avoid the cycle
            try:
                if self._events and (full := self._flush()) is not None:
                    yield from full.__await__()
                yield waited_for
                self._waited = True
            except BaseException as interruption:  # every error is raised in `running`
                error = interruption

    def _flush(self, last: bool = False) -> Coroutine[Any, Any, None] | None:
        """Send pending events.

        Returns None if they are sent, or an awaitable that waits for the client to read.
        """
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
        return None if waiting is None else self._wait_until_written(waiting)

    async def _wait_until_written(self, waiting: Awaitable[None]) -> None:
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
