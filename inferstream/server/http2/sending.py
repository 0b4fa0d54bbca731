"""The sending half of a connection: immediate writes, and streams that wait for a client to read."""

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

MAX_FRAME_SIZE = 256 * 1024
"""The maximum size in bytes of a DATA frame, even if the client accepts larger frames."""

TURN = 64 * 1024
"""Bytes that each of several waiting streams sends in its turn."""

MAX_TURN_BYTES = 1024 * 1024
"""The maximum for a single waiting stream. Its turns grow while the kernel accepts all bytes.

Large writes matter because each write wakes the client.
"""

TOGETHER = 32 * 1024
"""Bytes after which the collected frames of several streams are written."""

MAX_WAIT_SECONDS = 0.001
"""Seconds after which collected frames are written. One loop iteration can take much longer."""

UNIT = 1024
"""Bytes of a response that count as another write in `Sender.sent`.

The count determines how many control frames a client may send.
"""


Payload = bytes | bytearray | memoryview


class Sending(Protocol):
    """The interface of a stream that its connection uses."""

    id: int
    send_window: int
    stalled_since: float | None

    @property
    def waits(self) -> bool:
        """Whether bytes of the body are pending."""

    @property
    def begins(self) -> bool:
        """Whether the head of the response is pending."""

    def send_head(self) -> None:
        """Send the head now if it is pending."""

    def take_head(self, into: list[Payload]) -> None:
        """Append the head of the response to `into` if it is pending."""

    def take_data(self, most: int, into: list[Payload]) -> int:
        """Append a DATA frame with up to `most` pending bytes to `into`. Returns the number of bytes."""

    def take_end(self, into: list[Payload]) -> bool:
        """Append the end of the response to `into` unless bytes of the body are pending.

        Returns whether it was appended. If so, the caller must call `complete`.
        """

    def complete(self) -> None:
        """Mark the response as complete."""


class Sender:
    """The sending half of a connection."""

    limits: Http2Limits
    transport: asyncio.Transport
    streams: Mapping[int, Sending]
    heard_at: float
    """When the client last sent any bytes."""
    ends_quietly: bool
    """Whether to delay GOAWAY until the requests in progress are done.

    Python HTTP/2 clients that use h2, such as httpx, drop these requests when they receive a GOAWAY.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = self.loop.time
        self.no_wait: asyncio.Future[None] = self.loop.create_future()
        """A completed future. Awaiting it costs a third as much as awaiting a coroutine."""
        self.no_wait.set_result(None)
        self.peername: Any = None
        """The client address, read when the connection opened."""
        self.send_window = DEFAULT_WINDOW
        self.largest_frame = frames.SMALLEST_MAX_FRAME
        self.paused = False
        self.ended = False
        """Whether reading and writing have stopped."""
        self.corked = False
        """Whether control frames are held back until the current read has been processed."""
        self.uses = 0
        """Number of useful frames so far, in both directions."""
        self.sent = 0
        """Number of response writes so far, plus the number of `UNIT`s in them."""
        self.served = 0
        """Number of complete responses so far."""
        self._unwritten: list[bytes] = []
        """Frames to write before any other data."""
        self._unsent_control = 0
        self._turn_bytes = TURN
        """Bytes of the next write for a single waiting stream."""
        self._later: list[Callable[[], object]] = []
        """Callbacks of streams for the end of this loop iteration."""
        self._turning = False
        """Whether `_write_frames` is scheduled."""
        self._gathering = False
        """Whether response frames are being collected in this loop iteration."""
        self._gathered_bytes = 0
        self._left_at = 0.0
        """When collected frames were last written in this loop iteration, or when the first was added."""
        self.table_update = b""
        """A dynamic table size update for the next header block, for a client with a smaller table."""
        self.beginning: dict[Sending, None] = {}
        """Streams whose head waits for the transport. A head needs no flow-control window."""
        self.ending: dict[Sending, None] = {}
        """Streams of which only the end is pending. They wait for the transport."""
        self.waiting: dict[Sending, None] = {}
        """Streams with pending bytes that wait for the transport or the connection's window."""

    def write(self, data: bytes) -> None:
        """Write response frames immediately, or with frames of other streams in this loop iteration."""
        size = len(data)
        self.sent += 1 + size // UNIT
        if len(self.streams) > 1:
            now = monotonic()
            if not self._gathering:
                self._gathering = True
                self._left_at = now
                self._schedule_write()
            self._unwritten.append(data)
            self._gathered_bytes += size
            if self._gathered_bytes < TOGETHER and now - self._left_at < MAX_WAIT_SECONDS:
                return
            self._left_at = now
            data = self._take()
        elif self._unwritten:
            self._unwritten.append(data)
            data = self._take()
        self.transport.write(data)

    def run_later(self, send: Callable[[], object]) -> None:
        """Call `send` at the end of this loop iteration, before the collected frames are written."""
        self._later.append(send)
        self._schedule_write()

    def _schedule_write(self) -> None:
        if not self._turning:
            self._turning = True
            self.loop.call_soon(self._write_frames)

    def _write_frames(self) -> None:
        """Write the frames collected in this loop iteration."""
        self.send_later()
        self._turning = self._gathering = False
        if self._unwritten and not self.ended:
            self.transport.write(self._take())

    def send_later(self) -> None:
        """Run the callbacks of streams that wait for the end of this loop iteration."""
        if self._later:
            later, self._later = self._later, []
            for send in later:
                send()

    def _take(self) -> bytes:
        taken = b"".join(self._unwritten)
        self._unwritten.clear()
        self._gathered_bytes = 0
        return taken

    def write_control(self, data: bytes) -> None:
        """Write a control frame. During a read, it is held back until the read has been processed."""
        if self.ended:
            return
        self._unwritten.append(data)
        if not self.corked:
            self.uncork()

    def uncork(self) -> None:
        """Write the frames that were held back."""
        if not self._unwritten or self.ended:
            return
        data = self._take()
        if self.paused:
            self._unsent_control += len(data)
            if self._unsent_control > self.limits.max_unsent_control:
                logger.debug(
                    "client sends frames that need replies but does not read them; closing the connection"
                )
                self.abort()
                return
        self.transport.write(data)

    def flush(self, stream: Sending) -> None:
        """Send as many pending bytes of a stream as the windows allow."""
        sent = False
        if self.paused and stream.begins:
            self.beginning[stream] = None
        while not self.paused and self._send_turn(stream, self._turn_bytes):
            sent = True
        self._update_queues(stream, sent)

    def flush_all(self) -> None:
        """Let all streams that wait for the connection send, in turns."""
        while self.waiting and self.send_window > 0 and not self.paused:
            stream = next(iter(self.waiting))
            del self.waiting[stream]
            sent = self.sent
            self._send_turn(stream, TURN if self.waiting else self._turn_bytes)
            self._update_queues(stream, self.sent > sent)

    def _send_turn(self, stream: Sending, most: int) -> bool:
        """Send at most `most` pending bytes. Returns False if nothing could be sent or nothing is left."""
        into: list[Payload] = []
        stream.take_head(into)
        left = most
        while left > 0 and (taken := stream.take_data(left, into)):
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
            self._turn_bytes = min(2 * most, MAX_TURN_BYTES) if fast else TURN
        if ends:
            # Only now, because completing the last stream may close the connection.
            stream.complete()
        return stream.waits

    def _update_queues(self, stream: Sending, moved: bool) -> None:
        if not stream.waits:
            self.waiting.pop(stream, None)
            stream.stalled_since = None
            return
        if stream.send_window > 0:
            self.waiting[stream] = None
        else:  # a client may have thousands of these and update the connection's window often
            self.waiting.pop(stream, None)
        if moved or stream.stalled_since is None:
            stream.stalled_since = self.clock()

    def remove(self, stream: Sending) -> None:
        """Remove a stream from all queues."""
        self.waiting.pop(stream, None)
        self.beginning.pop(stream, None)
        self.ending.pop(stream, None)

    def encode_headers(self, stream: int, block: bytes, end: bool) -> bytes:
        """Encode a header block, which must be the next one to be written."""
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
            stream.send_head()
        while self.ending and not self.paused:
            stream = next(iter(self.ending))
            del self.ending[stream]
            self._send_turn(stream, TURN)
        self.flush_all()

    def abort(self) -> None:
        """Close the connection immediately, and discard unsent bytes."""
        self.ended = True
        self.transport.abort()

    # Implemented by the receiving half

    @abstractmethod
    def release_credit(self, size: int) -> None:
        """Return flow-control credit for `size` consumed bytes."""

    @abstractmethod
    def forget(self, stream: Sending, *, reset: bool) -> None:
        """Remove a closed stream. `reset` is true if its client may still send frames."""
