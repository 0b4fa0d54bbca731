"""A call with one request and one response."""

from ....concurrency.scope import FAILURES, ClientLeft
from ....errors import InferstreamError
from ...http2.stream import Stream
from ..messages import PREFIX, MessageBuffer
from ..rpc import ServedRpc
from ..statuses import StatusCode
from .call import CallLimits, GrpcCall
from .head import ENDED, OPENED, CallHead, Pairs, ended, opened

_PREFIX = PREFIX.size


class UnaryCall(GrpcCall):
    """One request and one response."""

    __slots__ = ("_initial", "_message")

    def __init__(self, stream: Stream, head: CallHead, rpc: ServedRpc, limits: CallLimits) -> None:
        super().__init__(stream, head, rpc, limits)
        self._message: bytes | memoryview | None = None
        self._initial: Pairs = ()

    def received(self, data: bytes | memoryview, end: bool) -> None:
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

    def _collect(self, data: bytes | memoryview, end: bool) -> None:
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

    async def send_initial_metadata(self, metadata: Pairs, /) -> None:
        """It leaves with the response, which is one write."""
        if self._left:
            raise ClientLeft
        self._initial = metadata

    def fail(self, code: StatusCode, message: str, trailing: Pairs = ()) -> None:
        if self._initial and not self._over:
            self._opened = True
            self._stream.open(opened(self._initial, self._encoding))
        super().fail(code, message, trailing)
