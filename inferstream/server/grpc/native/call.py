"""One call: its messages in both directions, its deadline, and its end."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Generator
from typing import Protocol

from ....concurrency.interruption import Interruption
from ....errors import InferstreamError, PayloadTooLarge
from ...http2.stream import Stream
from ...tls import identities
from ..messages import IDENTITY, PREFIX, MessageBuffer, check_encoding, compressed, decompressed
from ..metadata import Metadata
from ..rpc import ClientLeft, Rpc, RpcFailed
from ..statuses import StatusCode, grpc_status
from .head import ENDED, OPENED, CallHead, Pairs, ended, failed_at_once, opened

logger = logging.getLogger("inferstream.grpc")

WITHOUT_WAIT = 16
"""Messages after which a stream that never waits lets other calls run."""

MOST_WAITING = 64
"""Messages of a stream that are cut out before the RPC reads them. The others wait as the bytes that arrived."""

WORTH_COMPRESSING = 1024
"""Bytes of a message below which compression gains nothing."""

_PREFIX = PREFIX.size


class _Nothing:
    """An awaitable that is done."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Nothing()


class CallLimits(Protocol):
    """What calls need to know of their port."""

    max_receive: int
    max_send: int | None
    compression: bytes | None


class Call:
    """The part of a call that unary and streaming RPCs share; it is the context of the RPC."""

    __slots__ = (
        "_buffer",
        "_encoding",
        "_head",
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

    def __init__(self, stream: Stream, head: CallHead, rpc: Rpc, limits: CallLimits) -> None:
        self._stream = stream
        self._head = head
        self._rpc = rpc
        self._limits = limits
        self._buffer: MessageBuffer | None = None
        self._encoding: bytes | None = None
        self._trailing: Pairs = ()
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
        if isinstance(name, tuple):
            host, port = name[:2]
            return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        return f"unix:{name or ''}"

    @property
    def identities(self) -> tuple[str, ...]:
        return identities(self._stream.connection.transport.get_extra_info("peercert"))

    def invocation_metadata(self) -> Metadata:
        return self._head.metadata

    async def read(self) -> bytes | None:
        raise AssertionError("a unary RPC gets its message as an argument")

    def write(self, message: bytes, /) -> Awaitable[None]:
        raise AssertionError("a unary RPC returns its message")

    async def send_initial_metadata(self, metadata: Pairs, /) -> None:
        if self._left:
            raise ClientLeft
        if not self._opened:
            self._opened = True
            self._stream.head(opened(metadata, self._encoding))

    def set_trailing_metadata(self, metadata: Pairs, /) -> None:
        self._trailing = metadata

    # The end

    def lost(self) -> None:
        """The client has left."""
        self._left = self._over = True
        self._stop_timer()
        self._interrupt()

    def overdue(self) -> None:
        """The client takes too long to send a message that it has begun."""
        self.fail(StatusCode.DEADLINE_EXCEEDED, "The request was not received in time.")
        self._interrupt()

    def fail(self, code: StatusCode, message: str, trailing: Pairs = ()) -> None:
        """End the call with a status."""
        if self._over:
            return
        self._over = True
        self._stop_timer()
        trailing = self._trailing + trailing
        block = ended(code, message, trailing) if self._opened else failed_at_once(code, message, trailing)
        self._stream.finish(block)

    def _fail_by(self, error: InferstreamError) -> None:
        self.fail(*grpc_status(error))
        self._interrupt()

    def _expire(self) -> None:
        self._timer = None
        self.fail(StatusCode.DEADLINE_EXCEEDED, "The deadline has passed.")
        self._interrupt()

    def _interrupt(self) -> None:
        task = self._task
        if task is not None and not task.done():
            Interruption(task, lambda: True)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail_with(self, error: BaseException) -> None:
        """End the call as the RPC's failure asks."""
        if isinstance(error, RpcFailed):
            self.fail(error.code, error.message, error.trailing)
        elif isinstance(error, InferstreamError):
            self.fail(*grpc_status(error))
        elif isinstance(error, asyncio.CancelledError):
            self.fail(StatusCode.CANCELLED, "The server has cancelled the call.")
        elif not isinstance(error, ClientLeft):
            logger.error("an RPC failed outside its service", exc_info=error)
            self.fail(StatusCode.INTERNAL, "The server failed; its log says why.")

    # Messages

    def _framed(self, message: bytes) -> tuple[bytes, bytes]:
        """The prefix of a message, and its bytes as they are sent. Raises PayloadTooLarge."""
        size = len(message)
        if self._limits.max_send is not None and size > self._limits.max_send:
            raise PayloadTooLarge(
                f"The response has {size} bytes, more than the {self._limits.max_send} allowed."
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
            return decompressed(message, self._head.encoding, self._limits.max_receive)
        return message


class UnaryCall(Call):
    """One request and one response."""

    __slots__ = ("_message",)

    def __init__(self, stream: Stream, head: CallHead, rpc: Rpc, limits: CallLimits) -> None:
        super().__init__(stream, head, rpc, limits)
        self._message: bytes | memoryview | None = None

    def received(self, data: bytes, end: bool) -> None:
        size = len(data)
        self._stream.consumed(size)
        if self._over:
            return
        if self._buffer is None and end and size >= _PREFIX:
            # A message in one frame, as nearly all are.
            flags, length = PREFIX.unpack_from(data)
            if not flags and length == size - _PREFIX <= self._limits.max_receive:
                self._start(data[_PREFIX:])
                return
        self._collect(data, end)

    def _collect(self, data: bytes, end: bool) -> None:
        if self._buffer is None:
            self._buffer = MessageBuffer(self._limits.max_receive)
        buffer = self._buffer
        buffer.feed(data)
        try:
            while (message := self._next()) is not None:
                if self._message is not None:
                    self.fail(StatusCode.UNIMPLEMENTED, "The RPC takes one message, and more were sent.")
                    return
                self._message = message
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
        except (Exception, asyncio.CancelledError) as error:
            self._fail_with(error)

    def _respond(self, response: bytes) -> None:
        prefix, body = self._framed(response)
        self._over = True
        if self._timer is not None:
            self._stop_timer()
        stream = self._stream
        trailers = ended(StatusCode.OK, "", self._trailing) if self._trailing else ENDED
        if self._opened:
            stream.send(prefix, body)
            stream.finish(trailers)
        else:
            block = OPENED if self._encoding is None else opened((), self._encoding)
            stream.respond(block, prefix, body, trailers)


class StreamingCall(Call):
    """Messages in both directions, or many in one."""

    __slots__ = ("_half_closed", "_messages", "_owed", "_reader", "_without_wait")

    def __init__(self, stream: Stream, head: CallHead, rpc: Rpc, limits: CallLimits) -> None:
        super().__init__(stream, head, rpc, limits)
        self._buffer = MessageBuffer(limits.max_receive)
        self._messages: deque[tuple[bytes, bool]] = deque()
        """Messages that the RPC has not read, and whether each is compressed."""
        self._owed = 0
        """Bytes of the window that the client does not have back."""
        self._reader: asyncio.Future[None] | None = None
        self._half_closed = False
        self._without_wait = 0

    def start(self) -> None:
        self._task = self._stream.connection.loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._rpc.serve(None, self)
            if not self._over:
                self._over = True
                self._stop_timer()
                if not self._opened:
                    self._stream.head(opened((), self._encoding))
                self._stream.finish(ended(StatusCode.OK, "", self._trailing))
        except (Exception, asyncio.CancelledError) as error:
            self._fail_with(error)

    def received(self, data: bytes, end: bool) -> None:
        if self._over:
            return
        assert self._buffer is not None
        self._buffer.feed(data)
        self._owed += len(data)
        self._half_closed = end
        try:
            self._split()
        except InferstreamError as error:
            self._fail_by(error)
            return
        if self._over:
            self._interrupt()
        elif self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _split(self) -> None:
        """Cut messages out of what has arrived, as many as may wait. Raises InferstreamError."""
        stream, buffer, messages = self._stream, self._buffer, self._messages
        assert buffer is not None
        while len(messages) < MOST_WAITING:
            if (message := buffer.take()) is None:
                break
            messages.append((message, buffer.compressed))
        else:
            stream.expecting_since = None
            return
        if not messages and self._owed:
            # The message that the RPC waits for may be larger than the window. Its own limit bounds it.
            self._return(self._owed)
        incomplete = not buffer.between_messages
        if incomplete and self._half_closed:
            self.fail(StatusCode.INTERNAL, "The last message is incomplete.")
        stream.expecting_since = stream.connection.heard_at if incomplete else None

    def _return(self, size: int) -> None:
        """Let the client send as many further bytes, except those that it has back already."""
        size = min(size, self._owed)
        self._owed -= size
        self._stream.consumed(size)

    async def read(self) -> bytes | None:
        messages, buffer = self._messages, self._buffer
        assert buffer is not None
        while not messages:
            if buffer.size:
                self._split()
                if messages:
                    break
            if self._over:
                raise ClientLeft
            if self._half_closed:
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        message, packed = messages.popleft()
        self._return(_PREFIX + len(message))
        if packed:  # inflated here, so that messages which wait take no more memory than on the wire
            message = decompressed(message, self._head.encoding, self._limits.max_receive)
        return message

    def write(self, message: bytes, /) -> Awaitable[None]:
        if self._over:
            raise ClientLeft
        prefix, body = self._framed(message)
        stream = self._stream
        if not self._opened:
            self._opened = True
            stream.head(OPENED if self._encoding is None else opened((), self._encoding))
        if not stream.send(prefix, body):
            self._without_wait = 0
            return stream.sent()
        self._without_wait += 1
        if self._without_wait < WITHOUT_WAIT:
            return _DONE
        self._without_wait = 0
        return asyncio.sleep(0)
