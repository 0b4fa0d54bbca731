"""Streaming calls: many messages in one direction or in both."""

import asyncio
from collections.abc import Awaitable

from ....concurrency.channel import Channel
from ....concurrency.inflight import COUNTED_BYTES
from ....concurrency.outgoing import Gathered
from ....concurrency.scope import FAILURES, ClientLeft
from ....errors import InferstreamError
from ...http2.stream import Stream
from ..messages import PREFIX, MessageBuffer, decompress
from ..metadata import Metadata
from ..options import GrpcOptions
from ..rpc import Rpc
from ..statuses import StatusCode
from .call import GrpcCall
from .head import CallHead, encode_head, encode_trailers

WITHOUT_WAIT = 16
"""Messages after which a stream that never waits yields to other calls."""

MAX_WAITING = 64
"""Maximum number of messages that are split off before the RPC reads them.

The rest stays unparsed in the buffer.
"""

_PREFIX = PREFIX.size
_pack_prefix = PREFIX.pack


class StreamingCall(GrpcCall):
    """A call with many messages in one direction or in both.

    Messages that the RPC writes without waiting share a system call, because it is most of the cost of a
    small message. The first message is sent immediately, the others at the end of the event loop iteration.
    """

    __slots__ = (
        "_gathered",
        "_half_closed",
        "_messages",
        "_owed",
        "_plain",
        "_without_wait",
    )

    def __init__(self, stream: Stream, head: CallHead, rpc: Rpc, limits: GrpcOptions) -> None:
        super().__init__(stream, head, rpc, limits)
        self._buffer = MessageBuffer(limits.max_receive, limits.receive_setting)
        self._messages: Channel[tuple[bytes, bool]] = Channel(MAX_WAITING)
        """Messages that the RPC has not read yet, and whether each is compressed."""
        self._owed = 0
        """Received bytes that have not been returned to the flow-control window of the client."""
        self._half_closed = False
        self._gathered = Gathered()
        self._without_wait = 0
        self._plain = self._encoding is None and limits.max_send is None
        """Whether messages are sent uncompressed and without a size limit."""

    def start(self) -> None:
        self._task = self._stream.connection.loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._rpc.serve(None, self)
            if not self._over:
                self._over = True
                self._stop_timer()
                if not self._opened:
                    self._stream.open(encode_head(self._initial, self._encoding))
                self._finish(encode_trailers(StatusCode.OK, "", self._trailing))
        except FAILURES as error:
            self._fail_with(error)

    def receive_data(self, data: bytes | memoryview, end: bool) -> None:
        if self._over:
            return
        assert self._buffer is not None
        self._buffer.append(data)
        self._owed += len(data)
        self._half_closed = end
        try:
            self._split()
            if self._owed > COUNTED_BYTES or self._buffer.size > COUNTED_BYTES:
                self._count_memory()
        except InferstreamError as error:
            self._fail_and_cancel(error)
            return
        if self._over:
            self._end_task(ClientLeft())
        elif end and not self._buffer.size:
            self._messages.end()

    def _count_memory(self, size: int = 0) -> None:
        """Count the memory of waiting messages, plus `size` bytes of the message in use. Raises NoRoom."""
        assert self._buffer is not None
        self._memory_counter().resize(max(self._owed, self._buffer.size) + size)

    def _split(self) -> None:
        """Split the received bytes into messages, up to `MAX_WAITING`. Raises InferstreamError."""
        stream, buffer, messages = self._stream, self._buffer, self._messages
        assert buffer is not None
        while messages.has_room():
            if (message := buffer.take()) is None:
                break
            messages.put((message, buffer.compressed))
        else:
            stream.expecting_since = None
            return
        if messages.empty and self._owed:
            # The next message may be larger than the window, so let the client send more. The limit on
            # messages bounds its size.
            stream.return_credit(self._owed)
            self._owed = 0
        incomplete = not buffer.between_messages
        if incomplete and self._half_closed:
            self.fail(StatusCode.INTERNAL, "The last message is incomplete.")
        if not incomplete:
            stream.expecting_since = None
        elif stream.expecting_since is None:
            stream.expecting_since = stream.connection.heard_at
            stream.taken = 0

    async def read(self) -> bytes | None:
        messages, buffer = self._messages, self._buffer
        assert buffer is not None
        while messages.empty:
            if buffer.size:
                self._split()
                if not messages.empty:
                    break
            if self._over:
                raise ClientLeft
            if self._half_closed:
                return None
            await messages.news()
        message, packed = messages.pop()
        size = _PREFIX + len(message)
        if size > self._owed:  # a part was already returned, because the message was large
            size = self._owed
        self._owed -= size
        self._stream.return_credit(size)
        if packed:  # decompressed late, so that waiting messages take less memory
            message = decompress(
                message, self._head.encoding, self._limits.max_receive, self._limits.receive_setting
            )
        if self._stream.held is not None or len(message) > COUNTED_BYTES:
            self._count_memory(len(message))
        return message

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        if self._over:
            raise ClientLeft
        if not self._opened:
            self._opened = True
            stream = self._stream
            stream.open(encode_head(self._initial + metadata, self._encoding))
            stream.connection.run_later(stream.send_head)

    def write(self, message: bytes, /) -> Awaitable[None]:
        if self._over:
            raise ClientLeft
        prefix, body = (
            (_pack_prefix(0, len(message)), message) if self._plain else self._frame_message(message)
        )
        stream, gathered = self._stream, self._gathered
        if not self._opened:
            self._opened = True
            stream.open(encode_head(self._initial, self._encoding))
        self._without_wait += 1
        waits, turns = gathered.can_wait(len(body)), self._without_wait >= WITHOUT_WAIT
        if turns:
            self._without_wait = 0
        elif waits:
            if not gathered.pieces:
                stream.connection.run_later(self._send)
            gathered.pieces += prefix, body  # inlined `add`
            gathered.size += len(body)
            return stream.connection.no_wait
        if gathered.pieces:
            if gathered.fits(len(body)):
                gathered.add(len(body), prefix, body)
                prefix, body = b"", gathered.take()
            else:
                self._send()  # separately, so that this message is not copied
        if not stream.send(prefix, body):
            return stream.drain()
        return asyncio.sleep(0) if turns else stream.connection.no_wait

    def _send(self) -> None:
        if self._gathered:
            self._stream.send(b"", self._gathered.take())

    def _finish(self, trailers: bytes) -> None:
        self._stream.finish(trailers, self._gathered.take())
