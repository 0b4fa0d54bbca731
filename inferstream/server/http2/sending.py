"""Writes of a connection: frames at once while its client reads, and the streams that wait while it does not."""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Protocol

from . import frames
from .limits import Http2Limits
from .settings import DEFAULT_WINDOW

logger = logging.getLogger("inferstream.http2")

LARGEST_FRAME = 256 * 1024
"""Bytes of a DATA frame to a client that accepts even larger ones."""

TURN = 64 * 1024
"""Bytes that one of several waiting streams sends before the next one."""

LONGEST_TURN = 1024 * 1024
"""The same for a stream that waits alone, while the kernel takes all of it. Each write wakes the client."""

TOGETHER = 32 * 1024
"""Bytes of the frames of several streams that leave together."""

LONGEST_WAIT = 0.001
"""Seconds after which they leave with the next frame. A turn of the event loop is long where much is due at once."""

UNIT = 1024
"""Bytes of a response that let a client send as many frames of control as one write does."""


Payload = bytes | bytearray | memoryview


class Sending(Protocol):
    """A stream, as its connection sends what waits of it."""

    id: int
    send_window: int
    stalled_since: float | None

    @property
    def waits(self) -> bool:
        """Whether bytes of the body wait."""

    @property
    def begins(self) -> bool:
        """Whether the head of the response has not left."""

    def head(self) -> None:
        """Send the head now, if it has not left."""

    def take_head(self, into: list[Payload]) -> None:
        """Add the head of the response if it has not left."""

    def progress(self, most: int, into: list[Payload]) -> int:
        """Add frames of at most `most` bytes of what waits. The number of bytes."""

    def take_end(self, into: list[Payload]) -> bool:
        """Add the end of the response if nothing is before it. Whether it was added, so that `complete` must follow."""

    def complete(self) -> None:
        """The response is complete."""


class Sender:
    """The sending half of a connection."""

    limits: Http2Limits
    transport: asyncio.Transport
    streams: Mapping[int, Sending]
    heard_at: float
    """When the client last sent anything."""
    ends_quietly: bool
    """Whether GOAWAY waits for the end of the requests in progress.

    Python's clients of HTTP (httpx, through the library h2) drop these requests when they read it.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = self.loop.time
        self.no_wait: asyncio.Future[None] = self.loop.create_future()
        """An awaitable that is done. It costs a third of a coroutine."""
        self.no_wait.set_result(None)
        self.peername: Any = None
        """The client's address, as a socket gives it."""
        self.send_window = DEFAULT_WINDOW
        self.largest_frame = frames.SMALLEST_MAX_FRAME
        self.paused = False
        self.ended = False
        """Whether nothing more is read or written."""
        self.corked = False
        """Whether frames of control wait for the end of what is being read."""
        self.uses = 0
        """Useful frames so far, in both directions."""
        self.sent = 0
        """Writes of responses so far, and the `UNIT`s in them."""
        self.served = 0
        """Complete responses so far."""
        self._unwritten: list[bytes] = []
        """Frames that come before all that is written from now on."""
        self._unsent_control = 0
        self._turn_bytes = TURN
        """Bytes of the next write for a stream that waits alone."""
        self._later: list[Callable[[], object]] = []
        """What streams do at the end of this turn of the event loop."""
        self._turning = False
        """Whether `_turned` is about to be called."""
        self._gathering = False
        """Whether frames of responses wait for the end of this turn."""
        self._gathered_bytes = 0
        self._left_at = 0.0
        """When gathered frames last left in this turn, or the first of them came."""
        self.table_update = b""
        """What goes before the next header block, to tell a client with a smaller table that ours is empty."""
        self.beginning: dict[Sending, None] = {}
        """Streams of which the head waits for the transport. It needs no window."""
        self.ending: dict[Sending, None] = {}
        """Streams of which only the end waits, for the transport."""
        self.waiting: dict[Sending, None] = {}
        """Streams with bytes that wait for the connection's window or the transport, and not for their own window."""

    def write(self, data: bytes) -> None:
        """Write frames of a response: at once, or with those of other streams in this turn of the event loop."""
        size = len(data)
        self.sent += 1 + size // UNIT
        if len(self.streams) > 1:
            now = monotonic()
            if not self._gathering:
                self._gathering = True
                self._left_at = now
                self._turn_soon()
            self._unwritten.append(data)
            self._gathered_bytes += size
            if self._gathered_bytes < TOGETHER and now - self._left_at < LONGEST_WAIT:
                return
            self._left_at = now
            data = self._take()
        elif self._unwritten:
            self._unwritten.append(data)
            data = self._take()
        self.transport.write(data)

    def later(self, send: Callable[[], object]) -> None:
        """Let a stream send at the end of this turn of the event loop, before the frames of the turn are written."""
        self._later.append(send)
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._turning:
            self._turning = True
            self.loop.call_soon(self._turned)

    def _turned(self) -> None:
        """The event loop has turned: write what this connection has gathered."""
        self.send_later()
        self._turning = self._gathering = False
        if self._unwritten and not self.ended:
            self.transport.write(self._take())

    def send_later(self) -> None:
        """Let the streams send that wait for the end of this turn."""
        if self._later:
            later, self._later = self._later, []
            for send in later:
                send()

    def _take(self) -> bytes:
        taken = b"".join(self._unwritten)
        self._unwritten.clear()
        self._gathered_bytes = 0
        return taken

    def control(self, data: bytes) -> None:
        """Write a frame that is no part of a response. While frames are read it waits for the last of them."""
        if self.ended:
            return
        self._unwritten.append(data)
        if not self.corked:
            self.uncork()

    def uncork(self) -> None:
        """Write the frames that wait."""
        if not self._unwritten or self.ended:
            return
        data = self._take()
        if self.paused:
            self._unsent_control += len(data)
            if self._unsent_control > self.limits.max_unsent_control:
                logger.debug("a client sends what must be answered, and does not read the answers")
                self.abort()
                return
        self.transport.write(data)

    def flush(self, stream: Sending) -> None:
        """Send what the windows allow of a stream that waits."""
        sent = False
        if self.paused and stream.begins:
            self.beginning[stream] = None
        while not self.paused and self._turn(stream, self._turn_bytes):
            sent = True
        self._note(stream, sent)

    def flush_all(self) -> None:
        """Let every stream that waits for the connection send, in turns."""
        while self.waiting and self.send_window > 0 and not self.paused:
            stream = next(iter(self.waiting))
            del self.waiting[stream]
            sent = self.sent
            self._turn(stream, TURN if self.waiting else self._turn_bytes)
            self._note(stream, self.sent > sent)

    def _turn(self, stream: Sending, most: int) -> bool:
        """Send a part of what waits. Whether anything could be sent."""
        into: list[Payload] = []
        stream.take_head(into)
        left = most
        while left > 0 and (taken := stream.progress(left, into)):
            left -= taken
        ends = stream.take_end(into)
        if not into:
            return False
        self.sent += 1 + (most - left) // UNIT
        if self._unwritten:
            into.insert(0, self._take())
        self.transport.writelines(into)
        if not left:
            fast = not self.transport.get_write_buffer_size()
            self._turn_bytes = min(2 * most, LONGEST_TURN) if fast else TURN
        if ends:
            # Only now: what the end of the last stream causes may close the connection.
            stream.complete()
        return stream.waits

    def _note(self, stream: Sending, moved: bool) -> None:
        if not stream.waits:
            self.waiting.pop(stream, None)
            stream.stalled_since = None
            return
        if stream.send_window > 0:
            self.waiting[stream] = None
        else:  # a client may have thousands of these, and change the connection's window all day
            self.waiting.pop(stream, None)
        if moved or stream.stalled_since is None:
            stream.stalled_since = self.clock()

    def leave(self, stream: Sending) -> None:
        """Nothing of a stream waits any more."""
        self.waiting.pop(stream, None)
        self.beginning.pop(stream, None)
        self.ending.pop(stream, None)

    def headers(self, stream: int, block: bytes, end: bool) -> bytes:
        """The frame of a header block, the next one to be written."""
        if self.table_update:
            block, self.table_update = self.table_update + block, b""
        return frames.headers(stream, block, end)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._unsent_control = 0
        while self.beginning and not self.paused:
            stream = next(iter(self.beginning))
            del self.beginning[stream]
            stream.head()
        while self.ending and not self.paused:
            stream = next(iter(self.ending))
            del self.ending[stream]
            self._turn(stream, TURN)
        self.flush_all()

    def abort(self) -> None:
        """End the connection without a word, and drop what is unsent."""
        self.ended = True
        self.transport.abort()

    # The receiving half

    @abstractmethod
    def returned(self, size: int) -> None:
        """Receivers no longer keep these bytes."""

    @abstractmethod
    def forget(self, stream: Sending, *, reset: bool) -> None:
        """A stream has ended; `reset` if its client may still send frames."""
