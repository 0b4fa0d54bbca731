"""A call: the context of the RPC, the deadline, the end, and messages on the wire; and a call with one of each."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import cast

from ....concurrency.inflight import COUNTED_BYTES, RequestBytes
from ....concurrency.scope import FAILURES, ClientLeft, Scope
from ....errors import DeadlineExceeded, InferstreamError, PayloadTooLarge
from ...connections import address, identities
from ...http2.stream import Stream
from ..messages import IDENTITY, PREFIX, MessageBuffer, check_encoding, compressed, decompressed
from ..metadata import CallMetadata, Metadata
from ..options import GrpcOptions
from ..rpc import RpcFailed, ServedRpc
from ..statuses import StatusCode, grpc_status
from .head import ENDED, OPENED, CallHead, ended, failed_at_once, opened

logger = logging.getLogger("inferstream.grpc")

WORTH_COMPRESSING = 1024
"""Bytes of a message below which compression gains nothing."""

_PREFIX = PREFIX.size


class GrpcCall:
    """The part of a call that unary and streaming RPCs share; it is the context of the RPC."""

    __slots__ = (
        "_buffer",
        "_encoding",
        "_head",
        "_initial",
        "_left",
        "_limits",
        "_opened",
        "_over",
        "_rpc",
        "_stream",
        "_task",
        "_timer",
        "_trailing",
        "deadline",
    )

    def __init__(self, stream: Stream, head: CallHead, rpc: ServedRpc, limits: GrpcOptions) -> None:
        self._stream = stream
        self._head = head
        self._rpc = rpc
        self._limits = limits
        self._buffer: MessageBuffer | None = None
        self._encoding: bytes | None = None
        self._initial: Metadata = ()
        self._trailing: Metadata = ()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._opened = self._over = self._left = False
        self.deadline: float | None = None
        if limits.compression is not None and head.accepts(limits.compression):
            self._encoding = limits.compression

    def begin(self) -> bool:
        """Check the head, and start the clock. Whether the call goes on."""
        head = self._head
        if head.encoding != IDENTITY:
            try:
                check_encoding(head.encoding)
            except InferstreamError as error:
                self._fail_by(error)
                return False
        if (timeout := head.timeout) is not None:
            if timeout < 0:
                self.fail(
                    StatusCode.INTERNAL, "The grpc-timeout is not a number of at most 8 digits and a unit."
                )
                return False
            loop = asyncio.get_running_loop()
            self.deadline = loop.time() + timeout
            self._timer = loop.call_at(self.deadline, self._expire)
        return True

    # The context of the RPC

    @property
    def peer(self) -> str:
        name = self._stream.connection.peername
        return address(name[:2]) if isinstance(name, tuple) else f"unix:{name or ''}"

    @property
    def identities(self) -> tuple[str, ...]:
        return identities(self._stream.connection.transport.get_extra_info("peercert"))

    @property
    def metadata(self) -> CallMetadata:
        return self._head.metadata

    async def read(self) -> bytes | None:
        raise AssertionError("a unary RPC gets its message as an argument")

    def write(self, message: bytes, /) -> Awaitable[None]:
        raise AssertionError("a unary RPC returns its message")

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        raise NotImplementedError

    def add_initial_metadata(self, metadata: Metadata, /) -> None:
        self._initial += metadata

    def add_trailing_metadata(self, metadata: Metadata, /) -> None:
        self._trailing += metadata

    # The end

    def lost(self) -> None:
        """The client has left."""
        self._left = self._over = True
        self._stop_timer()
        self._end_task(ClientLeft())

    def overdue(self) -> None:
        """The client takes too long to send a message that it has begun."""
        self.fail(StatusCode.DEADLINE_EXCEEDED, "The request was not received in time.")
        self._end_task(DeadlineExceeded())

    def fail(self, code: StatusCode, message: str, trailing: Metadata = ()) -> None:
        """End the call with a status."""
        if self._over:
            return
        self._over = True
        self._stop_timer()
        if self._initial and not self._opened:
            self._opened = True
            self._stream.open(opened(self._initial, self._encoding))
        trailing = self._trailing + trailing
        block = ended(code, message, trailing) if self._opened else failed_at_once(code, message, trailing)
        self._finish(block)

    def _finish(self, trailers: bytes) -> None:
        self._stream.finish(trailers)

    def _fail_by(self, error: InferstreamError) -> None:
        self.fail(*grpc_status(error))
        self._end_task(error)

    def _expire(self) -> None:
        self._timer = None
        self.fail(StatusCode.DEADLINE_EXCEEDED, "The deadline has passed.")
        self._end_task(DeadlineExceeded())

    def _end_task(self, reason: Exception) -> None:
        # A task that is cancelled before it has begun keeps its frame, and that this call: a cycle.
        task, self._task = self._task, None
        if task is not None and not task.done():
            Scope(task).end(reason)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail_with(self, error: BaseException) -> None:
        if isinstance(error, RpcFailed):
            self.fail(error.code, error.message, error.trailing)
        elif isinstance(error, InferstreamError):
            self.fail(*grpc_status(error))
        elif not isinstance(error, Exception):
            self.fail(StatusCode.CANCELLED, "The server has cancelled the call.")
        elif not isinstance(error, ClientLeft):
            logger.error("an RPC failed outside its service", exc_info=error)
            self.fail(StatusCode.INTERNAL, "The server failed; its log says why.")

    # Messages

    def _held(self, announced: int = 0) -> RequestBytes:
        """What the call holds. Raises NoRoom for a message without room."""
        stream = self._stream
        if stream.held is None:
            stream.held = RequestBytes(self._limits.inflight, announced, stream)
            if stream.ended:  # nobody closes it any more
                stream.held.close()
        return cast(RequestBytes, stream.held)

    def _framed(self, message: bytes) -> tuple[bytes, bytes]:
        """The prefix of a message, and its bytes as they are sent. Raises PayloadTooLarge."""
        size = len(message)
        if self._limits.max_send is not None and size > self._limits.max_send:
            most, setting = self._limits.max_send, self._limits.send_setting
            raise PayloadTooLarge(
                f"The response has {size} bytes, more than the {most} allowed (setting {setting})."
            )
        if self._encoding is None or size < WORTH_COMPRESSING:
            return PREFIX.pack(0, size), message
        whole = compressed(message, self._encoding)
        return whole[:_PREFIX], whole[_PREFIX:]

    def _next(self) -> bytes | memoryview | None:
        """The next whole message that has arrived. Raises InferstreamError."""
        buffer = self._buffer
        assert buffer is not None
        message = buffer.take()
        if message is not None and buffer.compressed:
            return decompressed(
                message, self._head.encoding, self._limits.max_receive, self._limits.receive_setting
            )
        return message


class UnaryCall(GrpcCall):
    """One request and one response."""

    __slots__ = ("_message",)

    def __init__(self, stream: Stream, head: CallHead, rpc: ServedRpc, limits: GrpcOptions) -> None:
        super().__init__(stream, head, rpc, limits)
        self._message: bytes | memoryview | None = None

    def received(self, data: bytes | memoryview, end: bool) -> None:
        size = len(data)
        self._stream.consumed(size)
        if self._over:
            return
        if self._buffer is None and end and size >= _PREFIX:
            # A message in one frame, as nearly all are.
            flags, length = PREFIX.unpack_from(data)
            if not flags and length == size - _PREFIX <= self._limits.max_receive and size <= COUNTED_BYTES:
                self._start(data[_PREFIX:])
                return
        self._collect(data, end)

    def _collect(self, data: bytes | memoryview, end: bool) -> None:
        if self._buffer is None:
            self._buffer = MessageBuffer(self._limits.max_receive, self._limits.receive_setting)
        buffer = self._buffer
        buffer.feed(data)
        try:
            total = self._stream.taken
            while (message := self._next()) is not None:
                if buffer.compressed:
                    total += len(message)
                if self._message is not None:
                    self.fail(StatusCode.UNIMPLEMENTED, "The RPC takes one message, and more were sent.")
                    return
                self._message = message
            if total > COUNTED_BYTES:
                self._held(buffer.expected).receive(total)
        except InferstreamError as error:
            self._fail_by(error)
            return
        if not end:
            return
        if not buffer.between_messages:
            self.fail(StatusCode.INTERNAL, "The last message is incomplete.")
        elif self._message is None:
            self.fail(StatusCode.UNIMPLEMENTED, "The RPC takes one message, and none was sent.")
        else:
            message, self._message, self._buffer = self._message, None, None
            self._start(message)

    def _start(self, message: bytes | memoryview) -> None:
        self._stream.expecting_since = None
        self._task = self._stream.connection.loop.create_task(self._serve(message))

    async def _serve(self, message: bytes | memoryview) -> None:
        try:
            response = await self._rpc.serve(message, self)  # type: ignore[arg-type]  # any of the three
            assert response is not None
            if not self._over:
                self._respond(response)
        except FAILURES as error:
            self._fail_with(error)

    def _respond(self, response: bytes) -> None:
        prefix, body = self._framed(response)
        self._over = True
        if self._timer is not None:
            self._stop_timer()
        stream = self._stream
        trailers = ended(StatusCode.OK, "", self._trailing) if self._trailing else ENDED
        plain = self._encoding is None and not self._initial
        stream.respond(OPENED if plain else opened(self._initial, self._encoding), prefix, body, trailers)

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        """It leaves with the response, which is one write."""
        if self._left:
            raise ClientLeft
        self._initial += metadata
