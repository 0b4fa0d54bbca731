"""A call with messages in both directions, or many in one."""

import asyncio
from collections.abc import Awaitable

from ....concurrency.channel import Channel
from ....concurrency.inflight import COUNTED_BYTES
from ....concurrency.outgoing import Gathered
from ....concurrency.scope import FAILURES, ClientLeft
from ....errors import InferstreamError
from ...http2.stream import Stream
from ..messages import PREFIX, MessageBuffer, decompressed
from ..metadata import Metadata
from ..options import GrpcOptions
from ..rpc import ServedRpc
from ..statuses import StatusCode
from .call import GrpcCall
from .head import CallHead, ended, opened

WITHOUT_WAIT = 16
"""Messages after which a stream that never waits lets other calls run."""

MOST_WAITING = 64
"""Messages of a stream that are cut out before the RPC reads them. The others wait as the bytes that arrived."""

_PREFIX = PREFIX.size
_pack_prefix = PREFIX.pack


class StreamingCall(GrpcCall):
    """Messages in both directions, or many in one.

    Messages that the RPC writes without waiting leave together, because the system call is most of what a small
    message costs. The first leaves alone, and the others by the end of this turn of the event loop.
    """

    __slots__ = (
        "_gathered",
        "_half_closed",
        "_messages",
        "_owed",
        "_plain",
        "_without_wait",
    )

    def __init__(self, stream: Stream, head: CallHead, rpc: ServedRpc, limits: GrpcOptions) -> None:
        super().__init__(stream, head, rpc, limits)
        self._buffer = MessageBuffer(limits.max_receive, limits.receive_setting)
        self._messages: Channel[tuple[bytes, bool]] = Channel(MOST_WAITING)
        """Messages that the RPC has not read, and whether each is compressed."""
        self._owed = 0
        """Bytes of the window that the client does not have back."""
        self._half_closed = False
        self._gathered = Gathered()
        self._without_wait = 0
        self._plain = self._encoding is None and limits.max_send is None
        """Whether messages are sent as they are, however large."""

    def start(self) -> None:
        self._task = self._stream.connection.loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._rpc.serve(None, self)
            if not self._over:
                self._over = True
                self._stop_timer()
                if not self._opened:
                    self._stream.open(opened(self._initial, self._encoding))
                self._finish(ended(StatusCode.OK, "", self._trailing))
        except FAILURES as error:
            self._fail_with(error)

    def received(self, data: bytes | memoryview, end: bool) -> None:
        if self._over:
            return
        assert self._buffer is not None
        self._buffer.feed(data)
        self._owed += len(data)
        self._half_closed = end
        try:
            self._split()
            if self._owed > COUNTED_BYTES or self._buffer.size > COUNTED_BYTES:
                self._keep()
        except InferstreamError as error:
            self._fail_by(error)
            return
        if self._over:
            self._end_task(ClientLeft())
        elif end and not self._buffer.size:
            self._messages.end()

    def _keep(self, size: int = 0) -> None:
        """Count the messages that wait, and the bytes of the one that the RPC has. Raises NoRoom."""
        assert self._buffer is not None
        self._held().keep(max(self._owed, self._buffer.size) + size)

    def _split(self) -> None:
        """Cut messages out of what has arrived, as many as may wait. Raises InferstreamError."""
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
            # The message that the RPC waits for may be larger than the window. Its own limit bounds it.
            stream.consumed(self._owed)
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
        if size > self._owed:  # the client has a part of it back, because the message was large
            size = self._owed
        self._owed -= size
        self._stream.consumed(size)
        if packed:  # inflated here, so that messages which wait take no more memory than on the wire
            message = decompressed(
                message, self._head.encoding, self._limits.max_receive, self._limits.receive_setting
            )
        if self._stream.held is not None or len(message) > COUNTED_BYTES:
            self._keep(len(message))
        return message

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        if self._over:
            raise ClientLeft
        if not self._opened:
            self._opened = True
            stream = self._stream
            stream.open(opened(self._initial + metadata, self._encoding))
            stream.connection.later(stream.head)

    def write(self, message: bytes, /) -> Awaitable[None]:
        if self._over:
            raise ClientLeft
        prefix, body = (_pack_prefix(0, len(message)), message) if self._plain else self._framed(message)
        stream, gathered = self._stream, self._gathered
        if not self._opened:
            self._opened = True
            stream.open(opened(self._initial, self._encoding))
        self._without_wait += 1
        waits, turns = gathered.waits(len(body)), self._without_wait >= WITHOUT_WAIT
        if turns:
            self._without_wait = 0
        elif waits:
            if not gathered.pieces:
                stream.connection.later(self._send)
            gathered.pieces += prefix, body  # `add`, without its frame
            gathered.size += len(body)
            return stream.connection.no_wait
        if gathered.pieces:
            if gathered.takes(len(body)):
                gathered.add(len(body), prefix, body)
                prefix, body = b"", gathered.take()
            else:
                self._send()  # apart from this one, which is not copied
        if not stream.send(prefix, body):
            return stream.sent()
        return asyncio.sleep(0) if turns else stream.connection.no_wait

    def _send(self) -> None:
        if self._gathered:
            self._stream.send(b"", self._gathered.take())

    def _finish(self, trailers: bytes) -> None:
        self._stream.finish(trailers, self._gathered.take())
