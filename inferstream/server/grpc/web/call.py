"""One call of gRPC-Web: the context of its RPC over an ASGI request and response."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, cast

from ....concurrency.outgoing import StallGuard, Turn
from ....concurrency.scope import ClientLeft
from ....errors import InvalidRequest, UnsupportedEncoding
from ...compression import DEFLATE, GZIP, inflate, too_large
from ...connections import ScopeClient
from ..messages import ACCEPTED, IDENTITY, PREFIX, MessageBuffer, check_encoding, decompressed, prefixed
from ..metadata import CallMetadata, Header, Metadata, header_pairs, metadata_of, percent_encoded, timeout_of
from ..options import MESSAGE_SETTING
from ..statuses import StatusCode
from .text import TextDecoder, encoded

Scope = Mapping[str, object]
Receive = Callable[[], Awaitable[Mapping[str, object]]]
Send = Callable[[dict[str, object]], Awaitable[None]]

TRAILERS = 0x80
"""The flag of the frame that holds the trailers."""


class WebLimits(NamedTuple):
    """What a call may take."""

    receive: int
    """Bytes of a request, and of the body."""
    send: int | None
    """Bytes of a response; None for no limit."""
    stall: float
    """Seconds in which the client may read nothing."""
    setting: str = MESSAGE_SETTING
    """The name of the setting that limits what is received."""


class WebCall(ScopeClient, StallGuard):
    """The context that the RPC gets. The whole body is received before the RPC starts."""

    logger = logging.getLogger("inferstream.grpc")

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: WebLimits, media: bytes) -> None:
        task = asyncio.current_task()
        assert task is not None
        ScopeClient.__init__(self, scope, receive, task)
        StallGuard.__init__(self, limits.stall, limits.stall)
        self.headers = cast("list[Header]", scope["headers"])
        self.path = cast(str, scope["path"])
        self.deadline: float | None = None
        self._multiplexed = cast(str, scope.get("http_version", "1.1")) >= "2"
        self._send = send
        self._limits = limits
        self._find = dict(self.headers).get
        accepted = self._find(b"accept", b"")
        self._text_in = is_text(media)
        self._text_out = is_text(accepted) or (self._text_in and b"grpc-web" not in accepted)
        self._encoding = self._find(b"grpc-encoding", IDENTITY)
        self.metadata = CallMetadata(())
        self._buffer = MessageBuffer(limits.receive, limits.setting)
        self._initial: Metadata = ()
        self._trailing: Metadata = ()
        self._response = b""
        self._started = self._received = False
        self._turn = Turn()

    # What the RPC uses

    async def read(self) -> bytes | None:
        await self._turn.end()
        return self._message()

    async def write(self, message: bytes, /) -> None:
        if self.left:
            raise ClientLeft
        self._check_size(message)
        if not self._started:
            await self._start(())
        self._waiting_since = self._loop.time()
        await self._send_body(prefixed(message))
        self._waiting_since = None
        await self._turn.end()

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        if self.left:
            raise ClientLeft
        await self._start(metadata)

    def add_initial_metadata(self, metadata: Metadata, /) -> None:
        self._initial += metadata

    def add_trailing_metadata(self, metadata: Metadata, /) -> None:
        self._trailing += metadata

    # What the door uses

    def begin(self, now: float) -> None:
        """Read the headers of the call. Raises InvalidRequest, Unsupported."""
        if (timeout := self._find(b"grpc-timeout")) is not None:
            self.deadline = now + timeout_of(timeout)
        check_encoding(self._encoding)
        self.metadata = CallMetadata(metadata_of(self.headers))

    async def receive(self) -> None:
        """Receive the whole body, and then wait for the disconnect in a task.

        Raises InvalidRequest, PayloadTooLarge, UnsupportedEncoding, ClientLeft.
        """
        encoding = self._find(b"content-encoding", IDENTITY).lower()
        if encoding not in (IDENTITY, GZIP, DEFLATE):
            raise UnsupportedEncoding(
                f'The content-encoding "{encoding.decode("latin-1")}" is not gzip or deflate.'
            )
        most = self._limits.receive + PREFIX.size
        decode = TextDecoder() if self._text_in else None
        packed: deque[bytes] = deque()
        size, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientLeft
            more = bool(message.get("more_body", False))
            piece = cast(bytes, message.get("body", b""))
            if encoding != IDENTITY:
                packed.append(piece)
                size += len(piece)
                if not more:
                    piece = inflate(
                        b"".join(packed),
                        encoding,
                        most if decode is None else most * 4 // 3 + 4,
                        "body",
                        self._limits.setting,
                    )
                    self.count(len(piece))
            if encoding == IDENTITY or not more:
                self._buffer.feed(piece if decode is None else decode.feed(piece))
            if max(size, self._buffer.size) > most:
                raise too_large("body", self._limits.receive, self._limits.setting)
        if decode is not None:
            decode.end()
        self._received = True
        self.listen()

    def only_message(self) -> bytes:
        """The request of a unary RPC. Raises InvalidRequest."""
        message = self._message()
        if message is None or not self._buffer.between_messages:
            raise InvalidRequest("The body of a unary call must hold one message.")
        return message

    def respond(self, message: bytes) -> None:
        """Keep the response of a unary RPC, so that `end` sends it with the trailers."""
        self._check_size(message)
        self._response = prefixed(message)

    async def end(self, code: StatusCode, message: str, trailing: Metadata) -> None:
        """Send the trailers, and what is before them."""
        block = b"grpc-status:%d\r\n" % code
        if message:
            block += b"grpc-message:%b\r\n" % percent_encoded(message)
        for name, value in header_pairs((*self._trailing, *trailing)):
            block += b"%b:%b\r\n" % (name, value)
        body = self._response + PREFIX.pack(TRAILERS, len(block)) + block
        if not self._started:
            await self._start((), len(self._written(body)))
        self.answered = True
        await self._send_body(body, more=False)

    def close(self) -> None:
        """End what runs beside the call."""
        super().close()
        self._leave_alone()

    def _message(self) -> bytes | None:
        buffer = self._buffer
        message = buffer.take()
        if message is None:
            if not buffer.between_messages:
                raise InvalidRequest("The body ends within a message.")
            return None
        if not buffer.compressed:
            return message
        message = decompressed(message, self._encoding, self._limits.receive, self._limits.setting)
        self.count(len(message))
        return message

    def _check_size(self, message: bytes) -> None:
        most = self._limits.send
        if most is not None and len(message) > most:
            raise too_large(f"response of {len(message)} bytes", most, MESSAGE_SETTING)

    async def _start(self, metadata: Metadata, length: int | None = None) -> None:
        self._started = True
        media = b"application/grpc-web-text+proto" if self._text_out else b"application/grpc-web+proto"
        headers = [(b"content-type", media), (b"grpc-accept-encoding", ACCEPTED)]
        headers += header_pairs((*self._initial, *metadata))
        if length is None:
            headers += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
            self._guard()
        else:
            headers.append((b"content-length", b"%d" % length))
        if not (self._received or self._multiplexed):
            headers.append((b"connection", b"close"))  # the server does not read the rest of the body
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    def _written(self, body: bytes) -> bytes:
        return encoded(body) if self._text_out else body

    async def _send_body(self, body: bytes, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": self._written(body), "more_body": more})


def is_text(media: bytes) -> bool:
    """Whether a Content-Type or Accept names the text form."""
    return b"application/grpc-web-text" in media
