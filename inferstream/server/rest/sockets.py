"""WebSocket connections on the HTTP port, with bounded memory in both directions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import cast
from urllib.parse import unquote

import orjson
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from ...concurrency.inflight import COUNTED_BYTES, NoRoom, RequestBytes
from ...concurrency.outgoing import Gathered, Owed, StallGuard
from ...errors import InferstreamError
from ..connections import TransportOrigin, strip_slashes
from ..edge import Listener
from ..http1.reading import Reading
from ..request_ids import HEADER
from ..status import http_headers, status_of
from .messages import error_document, wrap
from .websocket import WebSocketDoor, choose_subprotocol

logger = logging.getLogger("inferstream.rest")

SLICE = 16 * 1024
"""Bytes parsed at a time. Their messages are handled before more bytes are parsed."""

PARSING_SECONDS = 0.005
"""Seconds of parsing after which the connection yields to the event loop."""

MAX_FRAGMENTS = 16_384
MAX_CONTROLS = 1_000
"""Maximum pings and pongs from a client per second."""

REASON = 123
"""Maximum bytes of a close reason (RFC 6455 section 5.5)."""

CLOSING = 1.0
"""Seconds to wait for the client to close its side."""


class _Protocol(ServerProtocol):
    """The WebSocket protocol of one connection.

    The subprotocol is chosen by a method, because a callback would create a reference cycle.
    """

    too_large = ""
    """The close reason for a message over the limit. It names the setting, which the library cannot."""

    def select_subprotocol(self, subprotocols: Sequence[Subprotocol]) -> Subprotocol | None:
        name = choose_subprotocol(subprotocols)
        return None if name is None else Subprotocol(name)

    def fail(self, code: int, reason: str = "") -> None:
        super().fail(code, self.too_large if code == CloseCode.MESSAGE_TOO_BIG else reason)


class WebSocket(TransportOrigin, StallGuard, asyncio.Protocol):
    """One WebSocket connection, which its port hands over at the upgrade.

    Its calls are cancelled when the client disconnects, or after `silence` seconds without data if the
    network does not report the disconnect.
    """

    kind = "WebSocket"
    logger = logger

    def __init__(self, door: WebSocketDoor, lost: Callable[["WebSocket"], None]) -> None:
        super().__init__(door.stall, (door.silence or door.stall) / 4)
        self._door = door
        self._lost = lost
        self._conn = _Protocol(extensions=self._door.extensions, max_size=self._door.max_message)
        self._conn.too_large = self._door.too_large
        self._listener: Listener | None = None
        self._unread = bytearray()
        self._parts: list[bytes] = []
        self._incomplete = 0
        """Bytes received since the last complete message."""
        self._bytes = RequestBytes(door.inflight, upload=self)
        self._text = True
        self._counting_since = self._heard = self._loop.time()
        self._controls = 0
        self._flushing = False
        self._gathered = Gathered()
        self._writable = asyncio.Event()
        self._writable.set()
        self._turn = asyncio.Lock()
        self._leaving = self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peername = transport.get_extra_info("peername")
        self.reading = Reading(self.transport, self._resume_reading)
        self._owed = Owed(self.reading)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(self)
        self._over = True
        self._writable.set()
        self._stop_timer()
        self._bytes.close()
        self.reading.close()
        self._leave()

    def eof_received(self) -> None:
        self._end()

    def shutdown(self) -> None:
        """Close when no call is running, because the server is shutting down."""
        self._leaving = True
        self.handle_idle()

    def handle_idle(self) -> None:
        if self._leaving and not (self._listener is not None and self._listener.busy):
            self.close(1001, "The server is shutting down.")

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._heard = self._loop.time()
        self._unread += data
        self._incomplete += len(data)
        self._read()

    @property
    def receiving(self) -> bool:
        """Whether a message is incomplete."""
        return self._incomplete > 0 and not self.reading.held

    def time_out(self) -> None:
        self.fail(CloseCode.POLICY_VIOLATION, "The message was not received in time.")

    def _reserve_memory(self) -> None:
        """Reserve memory for a partial message. Closes the connection if the limit is exceeded."""
        try:
            self._bytes.resize(self._incomplete)
        except NoRoom as error:
            self.fail(CloseCode.TRY_AGAIN_LATER, error.message[:REASON])

    def _read(self) -> None:
        began = perf_counter()  # uvloop does not advance loop.time() during a callback
        while self._unread and not self.reading.held and not self._over:
            piece = bytes(self._unread[:SLICE])
            del self._unread[:SLICE]
            self._conn.receive_data(piece)
            for event in self._conn.events_received():
                if isinstance(event, Request):
                    self._open(event)
                else:
                    self._handle_frame(cast(Frame, event))
            self._flush()
            if self._unread and perf_counter() - began > PARSING_SECONDS:
                self.reading.hold(PARSING_SECONDS)
                self._loop.call_soon(self.reading.release, PARSING_SECONDS)
        if self._incomplete > COUNTED_BYTES or self._bytes.held:
            self._reserve_memory()

    def _resume_reading(self) -> None:
        self._heard = self._loop.time()
        self._read()

    def _open(self, request: Request) -> None:
        response = self._conn.accept(request)
        request_id: bytes | None = None
        if response.status_code == 101:
            headers = [
                (name.lower().encode(), value.encode("latin-1", "surrogateescape"))
                for name, value in request.headers.raw_items()
            ]
            request_id = self._door.request_ids.choose_from_headers(headers)
            try:
                self._listener = self._door.open(
                    self, strip_slashes(unquote(request.path.partition("?")[0])), headers, request_id
                )
            except Exception as error:
                response = self._build_rejection(wrap(error))
        if request_id is not None:
            response.headers[HEADER.decode()] = request_id.decode()
        self._conn.send_response(response)
        if self._listener is not None:
            self._guard()

    def _build_rejection(self, error: InferstreamError) -> Response:
        body = orjson.dumps(error_document(error)).decode()
        response = self._conn.reject(status_of(error, self._door.profile).http, body)
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "application/json"
        for name, value in http_headers(error):
            response.headers[name.decode()] = value.decode()
        return response

    def _handle_frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            self._count_control()
        elif frame.opcode is not Opcode.CLOSE and self._conn.state is OPEN:
            if frame.opcode is not Opcode.CONT:
                self._text = frame.opcode is Opcode.TEXT
            self._parts.append(bytes(frame.data))
            if frame.fin:
                self._incomplete = len(self._unread)
                message = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()
                if self._listener is not None:
                    self._listener.receive(message, self._text)
            else:
                self._incomplete += len(frame.data)  # may be larger than on the wire, because of compression
                if len(self._parts) > MAX_FRAGMENTS:
                    self.fail(1008, "The message comes in too many pieces.")

    def _count_control(self) -> None:
        if self._heard - self._counting_since > 1:
            self._counting_since = self._heard
            self._controls = 0
        self._controls += 1
        if self._controls > MAX_CONTROLS:
            self.fail(1008, "Too many pings.")

    def send(self, message: bytes, text: bool) -> Awaitable[None] | None:
        if self._writable.is_set() and not self._turn.locked():
            self.put(message, text)
            return None
        return self._send_in_turn(message, text)

    async def _send_in_turn(self, message: bytes, text: bool) -> None:
        async with self._turn:
            await self._writable.wait()
            self.put(message, text)

    def put(self, message: bytes, text: bool) -> None:
        if self._over or self._conn.state is not OPEN:
            return
        (self._conn.send_text if text else self._conn.send_binary)(message)
        self._gathered.add(len(message), *self._conn.data_to_send())
        if self._gathered.full:
            self._flush()
        elif not self._flushing:
            # Messages of one event loop iteration share a system call.
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        writes = self._conn.data_to_send()
        self._gathered.add(0, *writes)
        data = self._gathered.take()
        if not (data or writes) or self._over or self.transport.is_closing():
            return
        if self._waiting_since is not None:
            self._owed.add(len(data))
        self.transport.write(data)
        if b"" in writes:
            self._end()

    def pause_writing(self) -> None:
        self._waiting_since = self._loop.time()
        self._writable.clear()

    def resume_writing(self) -> None:
        self._waiting_since = None
        self._writable.set()
        self._owed.clear()

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and give the client `CLOSING` seconds to reply."""
        if not self._over and self._conn.state is OPEN:
            self._conn.send_close(code, reason)
            self._flush()
            self._close_soon()

    def fail(self, code: int, reason: str) -> None:
        if not self._over:
            self._conn.fail(code, reason)
            self._flush()

    def _end(self) -> None:
        """Stop handling messages, but keep reading: a close with unread bytes would reset the connection."""
        if self._over:
            return
        self._over = True
        self._unread.clear()
        self._parts.clear()
        self._bytes.close()
        self._leave()
        self.reading.resume()
        if not self.transport.is_closing():
            self._close_soon()
            if self.transport.can_write_eof():
                self.transport.write_eof()
            else:  # TLS cannot half-close
                self.transport.close()

    def _close_soon(self) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(CLOSING, self.transport.abort)

    def _leave(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.lost()

    def drop(self) -> None:
        self.transport.abort()

    def idle(self, now: float) -> bool:
        silence = self._door.silence
        if silence and not self.reading.held:
            if now - self._heard >= silence:
                logger.warning(
                    "WebSocket: no message from the client for %g s; closing the connection", silence
                )
                self.fail(1011, f"No sign of life for {silence:g} s.")
                return False
            if now - self._heard >= silence / 2:
                self._conn.send_ping(b"")
                self._flush()
        return True
