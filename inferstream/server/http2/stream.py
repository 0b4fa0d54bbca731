"""A stream: the request body in one direction and the response in the other (RFC 9113, section 5)."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from . import frames
from .errors import ErrorCode, StreamFault
from .request import Request
from .sending import Payload, Sender

JOINED = 64 * 1024
"""Maximum bytes for which copying into a single write is cheaper than writing several pieces."""


class Receiver(Protocol):
    """The application's side of a stream."""

    def receive_data(self, data: bytes | memoryview, end: bool) -> None:
        """Receive the next bytes of the body. A large number of bytes is passed as a memoryview.

        The receiver must eventually call `stream.return_credit` for all of them.
        """

    def time_out(self) -> None:
        """Handle a client that is too slow to send the expected data (see `Stream.expecting_since`)."""

    def lost(self) -> None:
        """Handle the reset of the stream or the loss of its connection.

        Nothing more can be received or sent.
        """


class Held(Protocol):
    """A resource that a request holds until its stream is closed."""

    def close(self) -> None: ...


Accept = Callable[["Stream", Request, bool], Receiver | None]
"""Starts a request, given its stream, its head, and whether it has no body.

Returns None if the response has already been sent.
"""

TooLarge = Callable[["Stream"], None]
"""Responds to a request whose head is too large. Its body is discarded."""


class Stream:
    """A stream, through which a response is sent. After the stream has closed, the methods do nothing."""

    __slots__ = (
        "_ending",
        "_opening",
        "_pending",
        "_unreturned",
        "_waiter",
        "connection",
        "content_left",
        "ended",
        "expecting_since",
        "held",
        "id",
        "opened_at",
        "receive_window",
        "receiver",
        "remote_ended",
        "responded",
        "send_window",
        "stalled_since",
        "taken",
        "unread",
    )

    def __init__(
        self, connection: Sender, id: int, send_window: int, receive_window: int, now: float
    ) -> None:
        self.connection = connection
        self.id = id
        self.send_window = send_window
        self.receive_window = receive_window
        self.content_left: int | None = None
        """Bytes of the body still to arrive according to the content-length."""
        self.receiver: Receiver | None = None
        """None before the request has started and after the stream has closed."""
        self.remote_ended = False
        self.ended = False
        """Whether the response is complete or the stream was reset, so that no frame may follow."""
        self.responded = False
        self.opened_at = now
        self.taken = 0
        """Received bytes of the body, in total or since the receiver started to wait."""
        self.expecting_since: float | None = None
        """When the receiver started waiting for the rest of incomplete data, or None."""
        self.stalled_since: float | None = None
        """When the client stopped reading a pending response, or None."""
        self.held: Held | None = None
        self._opening: bytes | None = None
        self._pending: deque[memoryview] = deque()
        self._ending: bytes | None = None
        self.unread = 0
        """Bytes that have arrived, or been announced by a frame, but not been consumed by the receiver."""
        self._unreturned = 0
        self._waiter: asyncio.Future[None] | None = None

    # Receiving

    def take(self, data: bytes | memoryview, end: bool) -> None:
        """Pass bytes of a DATA frame to the receiver. Raises StreamFault."""
        if self.content_left is not None:
            self.content_left -= len(data)
            if self.content_left < 0 or (end and self.content_left):
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the body's length is not the content-length")
        if end:
            self.remote_ended = True
        self.taken += len(data)
        if self.receiver is not None:
            self.receiver.receive_data(data, end)
        else:
            self.return_credit(len(data))

    @property
    def receiving(self) -> bool:
        """Whether the client has sent only a part of the data that the receiver waits for."""
        return self.expecting_since is not None

    def time_out(self) -> None:
        """Make the receiver handle a client that is too slow."""
        if self.receiver is not None:
            self.receiver.time_out()

    def return_credit(self, size: int) -> None:
        """Let the client send `size` more bytes, because the receiver has consumed that many."""
        if self.ended:
            return
        self.unread -= size
        self.connection.release_credit(size)
        self.extend_window(size)

    def extend_window(self, size: int) -> None:
        """Extend the stream's receive window by `size` bytes."""
        if self.remote_ended:
            return
        self._unreturned += size
        if self._unreturned * 2 >= self.connection.limits.stream_window:
            self.receive_window += self._unreturned
            self.connection.write_control(frames.window_update(self.id, self._unreturned))
            self._unreturned = 0

    # Sending

    def open(self, block: bytes) -> None:
        """Start the response with a header block, which is sent together with the next data."""
        self.responded = True
        self._opening = block

    def send_head(self) -> None:
        if self._opening is None or self.ended:
            return
        if self.connection.paused:
            self.connection.beginning[self] = None
        else:
            self.connection.write(self._encode_head())

    def _encode_head(self) -> bytes:
        """Return the frame of the head, which must be written next, or empty bytes if it has been sent."""
        block, self._opening = self._opening, None
        return b"" if block is None else self.connection.encode_headers(self.id, block, False)

    def respond(self, block: bytes, prefix: bytes, body: Payload, trailers: bytes) -> bool:
        """Send a complete response: head, body in two parts, and trailers.

        Returns whether all of it was written, so that nothing waits for the client.
        """
        connection = self.connection
        size = len(prefix) + len(body)
        if self.ended:
            return True
        if size > JOINED or not self._fits(size):
            self.open(block)
            self._ending = trailers
            self._send_in_turns(prefix, body)
            return self.ended
        self.send_window -= size
        connection.send_window -= size
        self.responded = True
        id = self.id
        connection.write(
            b"".join(
                (
                    connection.encode_headers(id, block, False),
                    frames.head(size, frames.DATA, 0, id),
                    prefix,
                    body,
                    frames.headers(id, trailers, True),
                )
            )
        )
        self.complete()
        return True

    def send(self, prefix: bytes, body: Payload) -> bool:
        """Send the next bytes of the body, in two parts.

        Returns whether all of them were written, so that nothing waits for the client.
        """
        if self.ended:
            return True
        connection, size = self.connection, len(prefix) + len(body)
        if (  # `_fits`, inlined: the call would cost as much as the comparisons
            size <= self.send_window
            and size <= connection.send_window
            and size <= connection.largest_frame
            and size <= JOINED
            and not self._pending
            and not connection.paused
        ):
            self.send_window -= size
            connection.send_window -= size
            data = frames.pack_head(size >> 8, size & 0xFF, frames.DATA, 0, self.id), prefix, body
            connection.write(b"".join((self._encode_head(), *data) if self._opening is not None else data))
            return True
        self._send_in_turns(prefix, body)
        return not self._pending

    def _send_in_turns(self, prefix: bytes, body: Payload) -> None:
        self._pending += (memoryview(prefix), memoryview(body))
        self.connection.flush(self)

    def finish(self, trailers: bytes, body: bytes = b"") -> bool:
        """Complete the response with the rest of its body and trailers, which may be empty.

        Returns whether all of it was written, so that nothing waits for the client.
        """
        if self.ended:
            return True
        connection = self.connection
        self.responded = True
        size = len(body)
        if body and not (size <= JOINED and self._fits(size)):
            self.send(b"", body)
            body = b""
        if self._pending:
            self._ending = trailers
            return False
        if connection.paused:
            # Respect the transport's limit: a client that does not read could send requests endlessly.
            self._ending = trailers
            self.stalled_since = connection.clock()
            connection.ending[self] = None
            return False
        last = self._encode_head()
        if body:
            self.send_window -= size
            connection.send_window -= size
            last += frames.head(size, frames.DATA, 0, self.id) + body
        connection.write(last + connection.encode_headers(self.id, trailers, True))
        self.complete()
        return True

    async def drain(self) -> None:
        """Wait until all pending bytes are written or the stream has closed."""
        while self._pending and not self.ended:
            if self._waiter is None or self._waiter.done():
                self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def reset(self, code: ErrorCode) -> None:
        """Reset the stream immediately."""
        if not self.ended:
            self.connection.write_control(frames.rst_stream(self.id, code))
            self.close()
            self.connection.forget(self, reset=True)

    def _fits(self, size: int) -> bool:
        connection = self.connection
        return (
            size <= self.send_window
            and size <= connection.send_window
            and size <= connection.largest_frame
            and not self._pending
            and not connection.paused
        )

    def complete(self) -> None:
        """Mark the response as complete. A client that is still sending must stop (RFC 9113, section 8.1)."""
        self.ended = True
        connection = self.connection
        connection.served += 1
        if self.held is not None:
            self.held.close()
        if not self.remote_ended:
            connection.write_control(frames.rst_stream(self.id, ErrorCode.NO_ERROR))
        connection.release_credit(self.unread)
        connection.forget(self, reset=not self.remote_ended)
        self.receiver = None

    # Used by the connection

    @property
    def waits(self) -> bool:
        return bool(self._pending)

    @property
    def begins(self) -> bool:
        return self._opening is not None

    def take_head(self, into: list[Payload]) -> None:
        if self._opening is not None:
            into.append(self._encode_head())

    def take_data(self, most: int, into: list[Payload]) -> int:
        connection = self.connection
        size = min(most, self.send_window, connection.send_window, connection.largest_frame)
        taken = 0
        parts: list[Payload] = []
        pending = self._pending
        while pending:
            part = pending[0]
            left = size - taken
            if len(part) > left:
                if left > 0:
                    parts.append(part[:left])
                    pending[0] = part[left:]
                    taken += left
                break
            parts.append(pending.popleft())
            taken += len(part)
        if taken:
            self.send_window -= taken
            connection.send_window -= taken
            into.append(frames.head(taken, frames.DATA, 0, self.id))
            into += parts
        if not pending:
            self.stalled_since = None
            self._wake()
        return taken

    def take_end(self, into: list[Payload]) -> bool:
        if self._pending or self._ending is None:
            return False
        into.append(self.connection.encode_headers(self.id, self._ending, True))
        self._ending = None
        return True

    def close(self) -> None:
        """Close the stream, and discard pending bytes."""
        if not self.ended:
            self.ended = True
            self.connection.release_credit(self.unread)
        if self.held is not None:
            self.held.close()
        self.receiver = None
        self._pending.clear()
        self._ending = None
        self.connection.remove(self)
        self._wake()

    def lose(self) -> None:
        """Close the stream before the client has received the complete response."""
        receiver = self.receiver
        self.close()
        if receiver is not None:
            receiver.lost()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
