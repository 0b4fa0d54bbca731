"""`RpcCall`: one call of a connection, and the messages that it has received."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from .status import RpcError, RpcStatus, read_headers, read_trailers

MAX_MESSAGE_BYTES = 1 << 26

PREFIX = 5
"""Size of the prefix of a message in bytes: a flag for compression, and the length."""


class CallOwner(Protocol):
    """The connection of a call."""

    peer_window: int
    """Initial window of a call at the peer, in bytes."""

    def reset(self, call: "RpcCall") -> None:
        """Tell the peer that the call is cancelled."""

    def forget(self, call: "RpcCall") -> None:
        """Leave out a call that has ended."""

    def return_window(self, stream: int, size: int) -> bool:
        """Let the peer send `size` more bytes. Returns whether it was worth a frame."""


class RpcCall:
    """A call with one request and a stream of responses, which `parse` decodes.

    A caller that reads slowly holds at most a flow-control window and one message.
    """

    def __init__(self, connection: CallOwner, stream: int, parse: Callable[[bytes], Any]) -> None:
        self.stream = stream
        self.send_window = connection.peer_window
        self.unsent = memoryview(b"")
        """The part of the request that the flow control of the peer does not admit yet."""
        self._connection, self._parse = connection, parse
        self._messages: deque[bytes] = deque()
        self._partial = b""
        self._unreturned = 0
        """Number of received bytes that the window of the peer still lacks."""
        self._answered = False
        """Whether the headers have arrived."""
        self._ended = False
        self._cancelled = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def was_abandoned(self) -> bool:
        """Whether the call was cancelled, or either side found that its deadline had passed."""
        failure = self._failure
        expired = isinstance(failure, RpcError) and failure.code is RpcStatus.DEADLINE_EXCEEDED
        return self._cancelled or expired

    def expire_after(self, seconds: float) -> None:
        """Fail the call with DEADLINE_EXCEEDED after this time."""
        expired = RpcError(RpcStatus.DEADLINE_EXCEEDED, "no response in time")
        self._timer = asyncio.get_running_loop().call_later(seconds, self.cancel, expired)

    async def read(self) -> Any:
        """Return the next message, or None at the end. Raises RpcError, or the failure given to `cancel`."""
        while not self._messages:
            if self._ended:
                if self._failure is not None:
                    raise self._failure
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        if self._unreturned and not self._messages:
            self._return_window()
        try:
            return self._parse(message)
        except Exception:  # of protobuf, and private to its implementation
            self.cancel()
            raise RpcError(RpcStatus.INTERNAL, "the peer sent a message of another type") from None

    def cancel(self, failure: Exception | None = None) -> None:
        """End the call, for the peer and for its reader. Does nothing if it has ended."""
        if not self._ended:
            self._cancelled = True
            self._connection.reset(self)
            self.end(failure or RpcError(RpcStatus.CANCELLED, "cancelled"))

    def receive_headers(self, fields: dict[str, str], last: bool) -> None:
        """Take headers or trailers."""
        if not self._answered:
            self._answered = True
            if (failure := read_headers(fields)) is not None:
                self.cancel(failure)
            elif last:
                self.end(read_trailers(fields))
        elif last:
            self.end(self._check_complete() or read_trailers(fields))
        else:
            self.cancel(RpcError(RpcStatus.INTERNAL, "the peer sent headers twice"))

    def receive(self, data: bytes, size: int) -> None:
        """Take the payload of a DATA frame, which took `size` bytes of the window."""
        self._unreturned += size
        if self._partial:
            data = self._partial + data
        at, end = 0, len(data)
        while end - at >= PREFIX:
            length = int.from_bytes(data[at + 1 : at + PREFIX])
            if data[at] or length > MAX_MESSAGE_BYTES:
                reason = "compressed" if data[at] else f"longer than {MAX_MESSAGE_BYTES} bytes"
                self.cancel(RpcError(RpcStatus.INTERNAL, f"the peer sent a message that is {reason}"))
                return
            if end - at - PREFIX < length:
                break
            self._messages.append(data[at + PREFIX : at + PREFIX + length])
            at += PREFIX + length
        self._partial = data[at:]
        if not self._messages:  # the rest of this message needs the window
            self._return_window()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, failure: Exception | None) -> None:
        """Let the reader find the end, after the messages that have arrived."""
        if self._ended:
            return
        self._ended, self._failure = True, failure
        self.unsent = memoryview(b"")
        self._connection.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _check_complete(self) -> RpcError | None:
        return RpcError(RpcStatus.INTERNAL, "the peer sent an incomplete message") if self._partial else None

    def _return_window(self) -> None:
        if not self._ended and self._connection.return_window(self.stream, self._unreturned):
            self._unreturned = 0
