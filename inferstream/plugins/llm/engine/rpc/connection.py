"""`RpcConnection`: an HTTP/2 connection of a client, with the calls on it (RFC 9113)."""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from hpack import Decoder, Encoder, NeverIndexedHeaderTuple
from hpack.exceptions import HPACKError

from .call import PREFIX, RpcCall
from .status import CANCEL, RpcError, RpcStatus, read_reset

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)

END_STREAM = ACK = 0x1
END_HEADERS, PADDED, WITH_PRIORITY = 0x4, 0x8, 0x20

SETTING_ENABLE_PUSH, SETTING_STREAMS, SETTING_WINDOW, SETTING_FRAME = 0x2, 0x3, 0x4, 0x5

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9
"""Size of the head of a frame in bytes."""

MAX_FRAME_BYTES = 16_384
MAX_HEADER_BYTES = 65_536
WINDOW = 65_535
"""The window of each call in bytes, which limits what arrives for a caller that does not read."""

CONNECTION_WINDOW = 1 << 24
"""The window of the connection in bytes. It is given back at once, so that no call waits for another."""

LAST_STREAM = (1 << 31) - 1


class _Violation(Exception):
    """The peer does not follow the protocol."""


def build_frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame. `payload` must be shorter than 2^24 bytes."""
    return struct.pack(">HBBBI", len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def encode_headers(authority: str, path: str) -> bytes:
    """Return the header block of a call, which does not depend on other blocks, so it can be sent many times."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": authority,
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "inferstream",
    }
    return Encoder().encode([NeverIndexedHeaderTuple(*each) for each in fields.items()], huffman=False)


class RpcConnection(asyncio.Protocol):
    """A connection. `opened` is done when the peer has shown that it speaks HTTP/2, or raises RpcError."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_usable = True
        """Whether calls can start."""
        self.peer_window = WINDOW
        """Initial window of a call at the peer, in bytes."""
        self._transport: Any = None
        self._calls: dict[int, RpcCall] = {}
        self._blocked: deque[RpcCall] = deque()
        """Calls with a part of the request that waits for the window of the connection or their own."""
        self._send_window = WINDOW
        self._max_frame = MAX_FRAME_BYTES
        self._max_calls = LAST_STREAM
        self._next_stream = 1
        self._unreturned = 0
        self._rest = b""
        self._decoder = Decoder(max_header_list_size=MAX_HEADER_BYTES)
        self._block: tuple[int, bool, bytes] | None = None
        """A header block whose CONTINUATION frames have not arrived: stream, whether it is the last, bytes."""
        self._handlers: tuple[Callable[[int, int, bytes], None], ...] = (
            self._on_data,
            self._on_headers,
            self._ignore,
            self._on_reset,
            self._on_settings,
            self._on_push,
            self._on_ping,
            self._on_goaway,
            self._on_window,
            self._on_continuation,
        )

    def start(
        self, headers: bytes, message: bytes, parse: Callable[[bytes], Any], timeout: float | None
    ) -> RpcCall:
        """Start a call. `timeout` is in seconds. Raises RpcError."""
        if len(self._calls) >= self._max_calls:
            raise RpcError(RpcStatus.RESOURCE_EXHAUSTED, "the peer does not accept more calls")
        call = RpcCall(self, self._next_stream, parse)
        self._next_stream += 2
        if self._next_stream >= LAST_STREAM:
            self.is_usable = False
        self._calls[call.stream] = call
        if timeout is not None:
            call.expire_after(timeout)
            limit = max(min(int(timeout * 1000), 99_999_999), 1)
            headers += Encoder().encode([NeverIndexedHeaderTuple("grpc-timeout", f"{limit}m")], huffman=False)
        head = build_frame(HEADERS, END_HEADERS, call.stream, headers)
        call.unsent = memoryview(b"\0" + len(message).to_bytes(PREFIX - 1) + message)
        self._send_request(call, head)
        return call

    def _send_request(self, call: RpcCall, head: bytes = b"") -> None:
        """Send as much of a request as the windows admit."""
        pieces = [head] if head else []
        while call.unsent:
            size = min(len(call.unsent), self._send_window, call.send_window, self._max_frame)
            if size <= 0:
                self._blocked.append(call)
                break
            piece, call.unsent = call.unsent[:size], call.unsent[size:]
            self._send_window -= size
            call.send_window -= size
            pieces.append(build_frame(DATA, 0 if call.unsent else END_STREAM, call.stream, bytes(piece)))
        if pieces:
            self._transport.write(b"".join(pieces))

    def _resume_requests(self) -> None:
        blocked, self._blocked = self._blocked, deque()
        for call in blocked:
            if call.unsent:
                self._send_request(call)

    def reset(self, call: RpcCall) -> None:
        """Tell the peer that the call is cancelled."""
        if self._calls.get(call.stream) is call:
            self._transport.write(build_frame(RST_STREAM, 0, call.stream, CANCEL.to_bytes(4)))

    def forget(self, call: RpcCall) -> None:
        """Leave out a call that has ended."""
        self._calls.pop(call.stream, None)
        if not self.is_usable and not self._calls and not self._transport.is_closing():
            self.close()

    def return_window(self, stream: int, size: int) -> bool:
        """Let the peer send `size` more bytes. Returns whether it was worth a frame."""
        if 2 * size < WINDOW:
            return False
        self._transport.write(build_frame(WINDOW_UPDATE, 0, stream, size.to_bytes(4)))
        return True

    def close(self) -> None:
        """Close the connection. Calls in progress fail with UNAVAILABLE."""
        self._lose("the connection was closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        settings = struct.pack(">HIHI", SETTING_ENABLE_PUSH, 0, SETTING_WINDOW, WINDOW)
        update = (CONNECTION_WINDOW - WINDOW).to_bytes(4)
        self._transport.write(
            PREFACE + build_frame(SETTINGS, 0, 0, settings) + build_frame(WINDOW_UPDATE, 0, 0, update)
        )

    def connection_lost(self, error: Exception | None) -> None:
        self._lose("the connection was lost")

    def _lose(self, reason: str) -> None:
        self.is_usable = False
        failure = RpcError(RpcStatus.UNAVAILABLE, reason)
        calls, self._calls = [*self._calls.values()], {}
        for call in calls:
            call.end(failure)
        if not self.opened.done():
            self.opened.set_exception(failure)
            self.opened.exception()  # not every caller waits for it
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        try:
            while end - at >= HEAD:
                length = int.from_bytes(data[at : at + 3])
                if length > MAX_FRAME_BYTES:
                    raise _Violation("a frame is too long")
                after = at + HEAD + length
                if after > end:
                    break
                stream = int.from_bytes(data[at + 5 : at + HEAD]) & LAST_STREAM
                self._receive(data[at + 3], data[at + 4], stream, data[at + HEAD : after])
                at = after
        except (_Violation, HPACKError, IndexError, struct.error, ValueError) as error:
            self._lose(f"the peer does not speak HTTP/2: {error}")
            return
        self._rest = data[at:]

    def _receive(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._block is not None and (kind != CONTINUATION or stream != self._block[0]):
            raise _Violation("a header block is incomplete")
        if not self.opened.done():
            if kind != SETTINGS or flags & ACK:
                raise _Violation("it does not begin with SETTINGS")
            self.opened.set_result(None)
        if kind < len(self._handlers):
            self._handlers[kind](flags, stream, payload)

    def _ignore(self, flags: int, stream: int, payload: bytes) -> None:
        """Priorities are only for servers."""

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        self._unreturned += size
        if 2 * self._unreturned >= CONNECTION_WINDOW:
            self.return_window(0, self._unreturned)
            self._unreturned = 0
        if (call := self._calls.get(stream)) is None:
            return  # it was cancelled
        if flags & PADDED:
            payload = _remove_padding(payload)
        call.receive(payload, size)
        if flags & END_STREAM:
            call.cancel(RpcError(RpcStatus.INTERNAL, "the peer sent no trailers"))

    def _on_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & PADDED:
            payload = _remove_padding(payload)
        if flags & WITH_PRIORITY:
            payload = payload[5:]
        self._add_block(stream, bool(flags & END_STREAM), payload, flags)

    def _on_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._block is None:
            raise _Violation("a CONTINUATION frame continues nothing")
        _, last, before = self._block
        self._add_block(stream, last, before + payload, flags)

    def _add_block(self, stream: int, last: bool, block: bytes, flags: int) -> None:
        if len(block) > MAX_HEADER_BYTES:
            raise _Violation("headers are too long")
        if not flags & END_HEADERS:
            self._block = stream, last, block
            return
        self._block = None
        # The table of the decoder needs each block, also for calls that are cancelled.
        fields = {str(name): str(value) for name, value in self._decoder.decode(block)}
        if (call := self._calls.get(stream)) is not None:
            call.receive_headers(fields, last)

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:
        if (call := self._calls.get(stream)) is not None:
            call.end(read_reset(int.from_bytes(payload)))

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & ACK:
            return
        for setting, value in struct.iter_unpack(">HI", payload):
            if setting == SETTING_STREAMS:
                self._max_calls = value
            elif setting == SETTING_FRAME:
                self._max_frame = min(max(value, MAX_FRAME_BYTES), (1 << 24) - 1)
            elif setting == SETTING_WINDOW:
                for call in self._calls.values():
                    call.send_window += value - self.peer_window
                self.peer_window = value
        self._transport.write(build_frame(SETTINGS, ACK, 0))
        self._resume_requests()

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:
        raise _Violation("it sends PUSH_PROMISE")

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not flags & ACK:
            self._transport.write(build_frame(PING, ACK, 0, payload))

    def _on_goaway(self, flags: int, stream: int, payload: bytes) -> None:
        """Let the calls that the peer has accepted continue, and fail the others."""
        self.is_usable = False
        last = int.from_bytes(payload[:4]) & LAST_STREAM
        for call in [*self._calls.values()]:
            if call.stream > last:
                call.end(RpcError(RpcStatus.UNAVAILABLE, "the peer is going away"))
        if not self._calls:
            self.close()

    def _on_window(self, flags: int, stream: int, payload: bytes) -> None:
        size = int.from_bytes(payload) & LAST_STREAM
        if not stream:
            self._send_window += size
        elif (call := self._calls.get(stream)) is not None:
            call.send_window += size
        else:
            return
        self._resume_requests()


def _remove_padding(payload: bytes) -> bytes:
    if payload[0] >= len(payload):
        raise _Violation("padding is too long")
    return payload[1 : len(payload) - payload[0]]
