"""The base class of gRPC calls, with context, deadline, status and messages, and the unary call."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import cast

from ....concurrency.inflight import COUNTED_BYTES, RequestBytes
from ....concurrency.scope import FAILURES, ClientLeft, Scope
from ....errors import DeadlineExceeded, InferstreamError, PayloadTooLarge
from ...connections import address, identities
from ...http2.stream import Stream
from ..messages import IDENTITY, PREFIX, MessageBuffer, check_encoding, compress, decompress
from ..metadata import CallMetadata, Metadata
from ..options import GrpcOptions
from ..rpc import Rpc, RpcFailed
from ..statuses import StatusCode, grpc_status
from .head import ENDED, OPENED, CallHead, encode_head, encode_trailers, encode_trailers_only

logger = logging.getLogger("inferstream.grpc")

WORTH_COMPRESSING = 1024
"""Message size in bytes below which compression gains nothing."""

_PREFIX = PREFIX.size


class GrpcCall:
    """The base class of unary and streaming calls. A call is also the context of its RPC."""

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

    def __init__(self, stream: Stream, head: CallHead, rpc: Rpc, limits: GrpcOptions) -> None:
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
        """Check the head and start the deadline timer. Returns False if the call has failed."""
        head = self._head
        if head.encoding != IDENTITY:
            try:
                check_encoding(head.encoding)
            except InferstreamError as error:
                self._fail_and_cancel(error)
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

    # End of the call

    def lost(self) -> None:
        """Handle the client's disconnect."""
        self._left = self._over = True
        self._stop_timer()
        self._end_task(ClientLeft())

    def time_out(self) -> None:
        """Fail the call, because the client takes too long to complete a message."""
        self.fail(StatusCode.DEADLINE_EXCEEDED, "The request was not received in time.")
        self._end_task(DeadlineExceeded())

    def fail(self, code: StatusCode, message: str, trailing: Metadata = ()) -> None:
        """Complete the call with an error status."""
        if self._over:
            return
        self._over = True
        self._stop_timer()
        if self._initial and not self._opened:
            self._opened = True
            self._stream.open(encode_head(self._initial, self._encoding))
        trailing = self._trailing + trailing
        block = (
            encode_trailers(code, message, trailing)
            if self._opened
            else encode_trailers_only(code, message, trailing)
        )
        self._finish(block)

    def _finish(self, trailers: bytes) -> None:
        self._stream.finish(trailers)

    def _fail_and_cancel(self, error: InferstreamError) -> None:
        self.fail(*grpc_status(error))
        self._end_task(error)

    def _expire(self) -> None:
        self._timer = None
        self.fail(StatusCode.DEADLINE_EXCEEDED, "The deadline has passed.")
        self._end_task(DeadlineExceeded())

    def _end_task(self, reason: Exception) -> None:
        # A task that is cancelled before its first step keeps its frame, which refers to this call: a cycle.
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
            logger.error("RPC failed outside its service", exc_info=error)
            self.fail(StatusCode.INTERNAL, "The server failed; its log says why.")

    # Messages

    def _memory_counter(self, announced: int = 0) -> RequestBytes:
        """Return the counter of the call's memory. Raises NoRoom if the `announced` bytes do not fit."""
        stream = self._stream
        if stream.held is None:
            stream.held = RequestBytes(self._limits.inflight, announced, stream)
            if stream.ended:  # the stream no longer closes it
                stream.held.close()
        return cast(RequestBytes, stream.held)

    def _frame_message(self, message: bytes) -> tuple[bytes, bytes]:
        """Return the prefix and the content of a message. Raises PayloadTooLarge."""
        size = len(message)
        if self._limits.max_send is not None and size > self._limits.max_send:
            most, setting = self._limits.max_send, self._limits.send_setting
            raise PayloadTooLarge(
                f"The response has {size} bytes, more than the {most} allowed (setting {setting})."
            )
        if self._encoding is None or size < WORTH_COMPRESSING:
            return PREFIX.pack(0, size), message
        whole = compress(message, self._encoding)
        return whole[:_PREFIX], whole[_PREFIX:]

    def _take_message(self) -> bytes | memoryview | None:
        """Return the next complete message, decompressed, or None. Raises InferstreamError."""
        buffer = self._buffer
        assert buffer is not None
        message = buffer.take()
        if message is not None and buffer.compressed:
            return decompress(
                message, self._head.encoding, self._limits.max_receive, self._limits.receive_setting
            )
        return message


class UnaryCall(GrpcCall):
    """A call with one request and one response."""

    __slots__ = ("_message",)

    def __init__(self, stream: Stream, head: CallHead, rpc: Rpc, limits: GrpcOptions) -> None:
        super().__init__(stream, head, rpc, limits)
        self._message: bytes | memoryview | None = None

    def receive_data(self, data: bytes | memoryview, end: bool) -> None:
        size = len(data)
        self._stream.return_credit(size)
        if self._over:
            return
        if self._buffer is None and end and size >= _PREFIX:
            # Fast path: the message is in one frame, as nearly all are.
            flags, length = PREFIX.unpack_from(data)
            if not flags and length == size - _PREFIX <= self._limits.max_receive and size <= COUNTED_BYTES:
                self._start(data[_PREFIX:])
                return
        self._collect(data, end)

    def _collect(self, data: bytes | memoryview, end: bool) -> None:
        if self._buffer is None:
            self._buffer = MessageBuffer(self._limits.max_receive, self._limits.receive_setting)
        buffer = self._buffer
        buffer.append(data)
        try:
            total = self._stream.taken
            while (message := self._take_message()) is not None:
                if buffer.compressed:
                    total += len(message)
                if self._message is not None:
                    self.fail(StatusCode.UNIMPLEMENTED, "The RPC takes one message, and more were sent.")
                    return
                self._message = message
            if total > COUNTED_BYTES:
                self._memory_counter(buffer.expected).receive(total)
        except InferstreamError as error:
            self._fail_and_cancel(error)
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
            response = await self._rpc.serve(message, self)  # type: ignore[arg-type]  # a view works as well
            assert response is not None
            if not self._over:
                self._respond(response)
        except FAILURES as error:
            self._fail_with(error)

    def _respond(self, response: bytes) -> None:
        prefix, body = self._frame_message(response)
        self._over = True
        if self._timer is not None:
            self._stop_timer()
        stream = self._stream
        trailers = encode_trailers(StatusCode.OK, "", self._trailing) if self._trailing else ENDED
        plain = self._encoding is None and not self._initial
        stream.respond(
            OPENED if plain else encode_head(self._initial, self._encoding), prefix, body, trailers
        )

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        """Store the metadata, which is sent together with the response in one write."""
        if self._left:
            raise ClientLeft
        self._initial += metadata
