"""One gRPC-Web call: the context of its RPC, over an ASGI request and response."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, cast

from ....concurrency.outgoing import StallGuard, Turn
from ....concurrency.scope import ClientLeft
from ....errors import InvalidRequest, UnsupportedEncoding
from ...compression import DEFLATE, GZIP, build_size_error, inflate
from ...connections import ScopeClient
from ..messages import ACCEPTED, IDENTITY, PREFIX, MessageBuffer, add_prefix, check_encoding, decompress
from ..metadata import (
    CallMetadata,
    Header,
    Metadata,
    encode_metadata,
    extract_metadata,
    parse_timeout,
    percent_encode,
)
from ..options import MESSAGE_SETTING
from ..statuses import StatusCode
from .text import TextDecoder, encode_chunk

Scope = Mapping[str, object]
Receive = Callable[[], Awaitable[Mapping[str, object]]]
Send = Callable[[dict[str, object]], Awaitable[None]]

TRAILERS = 0x80
"""The flag of the frame that holds the trailers."""


class WebLimits(NamedTuple):
    """Limits of a gRPC-Web call."""

    receive: int
    """Maximum bytes of a request message and of the body."""
    send: int | None
    """Maximum bytes of a response message, or None."""
    stall: float
    """Seconds after which a client that does not read is dropped."""
    setting: str = MESSAGE_SETTING
    """The setting that limits requests, named in errors."""


class WebCall(ScopeClient, StallGuard):
    """The context of a gRPC-Web call. The body is received completely before the RPC starts."""

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

    # Interface for the RPC

    async def read(self) -> bytes | None:
        await self._turn.end()
        return self._take_message()

    async def write(self, message: bytes, /) -> None:
        if self.left:
            raise ClientLeft
        self._check_size(message)
        if not self._started:
            await self._start(())
        self._waiting_since = self._loop.time()
        await self._send_body(add_prefix(message))
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

    # Interface for `GrpcWeb`

    def begin(self, now: float) -> None:
        """Parse the headers of the call. Raises InvalidRequest or Unsupported."""
        if (timeout := self._find(b"grpc-timeout")) is not None:
            self.deadline = now + parse_timeout(timeout)
        check_encoding(self._encoding)
        self.metadata = CallMetadata(extract_metadata(self.headers))

    async def receive(self) -> None:
        """Receive the complete body, and then watch for a disconnect in a task.

        Raises InvalidRequest, PayloadTooLarge, UnsupportedEncoding or ClientLeft.
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
                self._buffer.append(piece if decode is None else decode.decode(piece))
            if max(size, self._buffer.size) > most:
                raise build_size_error("body", self._limits.receive, self._limits.setting)
        if decode is not None:
            decode.end()
        self._received = True
        self.listen()

    def take_only_message(self) -> bytes:
        """Return the request of a unary RPC. Raises InvalidRequest."""
        message = self._take_message()
        if message is None or not self._buffer.between_messages:
            raise InvalidRequest("The body of a unary call must hold one message.")
        return message

    def respond(self, message: bytes) -> None:
        """Store the response of a unary RPC, which `end` sends together with the trailers."""
        self._check_size(message)
        self._response = add_prefix(message)

    async def end(self, code: StatusCode, message: str, trailing: Metadata) -> None:
        """Send the stored response, if any, and the trailers."""
        block = b"grpc-status:%d\r\n" % code
        if message:
            block += b"grpc-message:%b\r\n" % percent_encode(message)
        for name, value in encode_metadata((*self._trailing, *trailing)):
            block += b"%b:%b\r\n" % (name, value)
        body = self._response + PREFIX.pack(TRAILERS, len(block)) + block
        if not self._started:
            await self._start((), len(self._encode_body(body)))
        self.answered = True
        await self._send_body(body, more=False)

    def close(self) -> None:
        """Stop watching for a disconnect and for stalls."""
        super().close()
        self._stop_timer()

    def _take_message(self) -> bytes | None:
        buffer = self._buffer
        message = buffer.take()
        if message is None:
            if not buffer.between_messages:
                raise InvalidRequest("The body ends within a message.")
            return None
        if not buffer.compressed:
            return message
        message = decompress(message, self._encoding, self._limits.receive, self._limits.setting)
        self.count(len(message))
        return message

    def _check_size(self, message: bytes) -> None:
        most = self._limits.send
        if most is not None and len(message) > most:
            raise build_size_error(f"response of {len(message)} bytes", most, MESSAGE_SETTING)

    async def _start(self, metadata: Metadata, length: int | None = None) -> None:
        self._started = True
        media = b"application/grpc-web-text+proto" if self._text_out else b"application/grpc-web+proto"
        headers = [(b"content-type", media), (b"grpc-accept-encoding", ACCEPTED)]
        headers += encode_metadata((*self._initial, *metadata))
        if length is None:
            headers += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
            self._guard()
        else:
            headers.append((b"content-length", b"%d" % length))
        if not (self._received or self._multiplexed):
            headers.append((b"connection", b"close"))  # the server does not read the rest of the body
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    def _encode_body(self, body: bytes) -> bytes:
        return encode_chunk(body) if self._text_out else body

    async def _send_body(self, body: bytes, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": self._encode_body(body), "more_body": more})


def is_text(media: bytes) -> bool:
    """Whether a Content-Type or Accept header names the base64 format."""
    return b"application/grpc-web-text" in media
