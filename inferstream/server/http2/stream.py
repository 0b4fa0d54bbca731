"""One stream: the body of a request on its way in, and the response on its way out (RFC 9113 section 5)."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from . import frames
from .errors import ErrorCode, StreamFault
from .request import Request
from .sending import Payload, Sender

JOINED = 64 * 1024
"""Bytes up to which a copy into one write costs less than a write of several pieces."""


class Receiver(Protocol):
    """What a request is for: the application's side of a stream."""

    def received(self, data: bytes | memoryview, end: bool) -> None:
        """Take the next bytes of the body; a view has many of them.

        The receiver calls `stream.consumed` for all of them, sooner or later.
        """

    def overdue(self) -> None:
        """The client takes too long to send what the stream is `expecting_since`."""

    def lost(self) -> None:
        """The client has reset the stream, or its connection has ended: nothing can be received or sent."""


class Held(Protocol):
    """What a request holds until its stream ends."""

    def close(self) -> None: ...


Accept = Callable[["Stream", Request, bool], Receiver | None]
"""Begins a request: its stream, its head, and whether it has no body. None for one that has its response."""

TooLarge = Callable[["Stream"], None]
"""Responds to a request whose head is larger than the limit. Its body is not wanted."""


class Stream:
    """Sends a response. Every method may be called after the stream has ended, and then does nothing."""

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
        """Bytes of the body that the head's content-length still announces."""
        self.receiver: Receiver | None = None
        """None before the request has begun and after the stream has ended."""
        self.remote_ended = False
        self.ended = False
        """Whether the response is complete or the stream is reset: no frame may follow."""
        self.responded = False
        self.opened_at = now
        self.taken = 0
        """Bytes of the body so far, or since the receiver began to expect."""
        self.expecting_since: float | None = None
        """Since when the receiver waits for the rest of what the client has begun to send."""
        self.stalled_since: float | None = None
        """When the client stopped reading a response that waits for it."""
        self.held: Held | None = None
        self._opening: bytes | None = None
        self._pending: deque[memoryview] = deque()
        self._ending: bytes | None = None
        self.unread = 0
        """Bytes received or announced by a frame that the receiver still keeps."""
        self._unreturned = 0
        self._waiter: asyncio.Future[None] | None = None

    # Receiving

    def take(self, data: bytes | memoryview, end: bool) -> None:
        """Give the receiver the bytes of a frame, or a part of them. Raises StreamFault."""
        if self.content_left is not None:
            self.content_left -= len(data)
            if self.content_left < 0 or (end and self.content_left):
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "the body's length is not the content-length")
        if end:
            self.remote_ended = True
        self.taken += len(data)
        if self.receiver is not None:
            self.receiver.received(data, end)
        else:
            self.consumed(len(data))

    @property
    def receiving(self) -> bool:
        """Whether the client has not sent all of what it has begun."""
        return self.expecting_since is not None

    def time_out(self) -> None:
        """End the request, because the client takes too long."""
        if self.receiver is not None:
            self.receiver.overdue()

    def consumed(self, size: int) -> None:
        """Let the client send as many further bytes, because the receiver has no more use for these."""
        if self.ended:
            return
        self.unread -= size
        self.connection.returned(size)
        self.credit(size)

    def credit(self, size: int) -> None:
        """Let the client send as many further bytes on this stream."""
        if self.remote_ended:
            return
        self._unreturned += size
        if self._unreturned * 2 >= self.connection.limits.stream_window:
            self.receive_window += self._unreturned
            self.connection.control(frames.window_update(self.id, self._unreturned))
            self._unreturned = 0

    # Sending

    def open(self, block: bytes) -> None:
        """Begin the response with its head, a header block, which leaves with what is sent next."""
        self.responded = True
        self._opening = block

    def head(self) -> None:
        if self._opening is None or self.ended:
            return
        if self.connection.paused:
            self.connection.beginning[self] = None
        else:
            self.connection.write(self._head())

    def _head(self) -> bytes:
        """The frame of the head, the next one to be written; nothing if it has left."""
        block, self._opening = self._opening, None
        return b"" if block is None else self.connection.headers(self.id, block, False)

    def respond(self, block: bytes, prefix: bytes, body: Payload, trailers: bytes) -> bool:
        """Send a whole response: head, body in two parts, trailers. Whether nothing of it waits for the client."""
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
                    connection.headers(id, block, False),
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
        """Send the next bytes of the body, in two parts. Whether nothing of it waits for the client."""
        if self.ended:
            return True
        connection, size = self.connection, len(prefix) + len(body)
        if (  # as in `_fits`, whose call would cost as much as the comparisons
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
            connection.write(b"".join((self._head(), *data) if self._opening is not None else data))
            return True
        self._send_in_turns(prefix, body)
        return not self._pending

    def _send_in_turns(self, prefix: bytes, body: Payload) -> None:
        self._pending += (memoryview(prefix), memoryview(body))
        self.connection.flush(self)

    def finish(self, trailers: bytes, body: bytes = b"") -> bool:
        """End the response with the rest of its body and trailers, a header block or nothing.

        Whether nothing of it waits for the client.
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
            # Not written past the transport's limit: a client that does not read may send requests all day.
            self._ending = trailers
            self.stalled_since = connection.clock()
            connection.ending[self] = None
            return False
        last = self._head()
        if body:
            self.send_window -= size
            connection.send_window -= size
            last += frames.head(size, frames.DATA, 0, self.id) + body
        connection.write(last + connection.headers(self.id, trailers, True))
        self.complete()
        return True

    async def sent(self) -> None:
        """Wait until nothing waits for the client, or the stream has ended."""
        while self._pending and not self.ended:
            if self._waiter is None or self._waiter.done():
                self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def reset(self, code: ErrorCode) -> None:
        """End the stream at once."""
        if not self.ended:
            self.connection.control(frames.rst_stream(self.id, code))
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
        """The response is complete. A client that still sends must stop (RFC 9113 section 8.1)."""
        self.ended = True
        connection = self.connection
        connection.served += 1
        if self.held is not None:
            self.held.close()
        if not self.remote_ended:
            connection.control(frames.rst_stream(self.id, ErrorCode.NO_ERROR))
        connection.returned(self.unread)
        connection.forget(self, reset=not self.remote_ended)
        self.receiver = None

    # For the connection

    @property
    def waits(self) -> bool:
        return bool(self._pending)

    @property
    def begins(self) -> bool:
        return self._opening is not None

    def take_head(self, into: list[Payload]) -> None:
        if self._opening is not None:
            into.append(self._head())

    def progress(self, most: int, into: list[Payload]) -> int:
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
        into.append(self.connection.headers(self.id, self._ending, True))
        self._ending = None
        return True

    def close(self) -> None:
        """No frame can be sent any more, and what waits is dropped."""
        if not self.ended:
            self.ended = True
            self.connection.returned(self.unread)
        if self.held is not None:
            self.held.close()
        self.receiver = None
        self._pending.clear()
        self._ending = None
        self.connection.leave(self)
        self._wake()

    def lose(self) -> None:
        """The stream is over without the client's having all of the response."""
        receiver = self.receiver
        self.close()
        if receiver is not None:
            receiver.lost()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
