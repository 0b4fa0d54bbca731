"""A WebSocket over ASGI, which connects any ASGI server to `WebSocketDoor`."""

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Any

import orjson

from ...concurrency.outgoing import Owed
from ...concurrency.tasks import Tasks
from ...errors import InferstreamError
from ..connections import ScopeOrigin
from ..request_ids import HEADER
from ..status import http_headers, status_of
from .messages import JSON, RawHeaders, Receive, Scope, Send, error_document, wrap
from .websocket import WebSocketDoor, choose_subprotocol

logger = logging.getLogger("inferstream.rest")

REFUSAL = "websocket.http.response"
"""The ASGI extension that rejects an upgrade with an HTTP response."""


class Holds:
    """The reasons to pause receiving. Receiving continues once the last reason is released."""

    def __init__(self) -> None:
        self._reasons: set[Hashable] = set()
        self._free = asyncio.Event()
        self._free.set()

    def hold(self, reason: Hashable) -> None:
        self._reasons.add(reason)
        self._free.clear()

    def release(self, reason: Hashable) -> None:
        self._reasons.discard(reason)
        if not self._reasons:
            self._free.set()

    async def wait_until_free(self) -> None:
        """Wait until no reason is left."""
        await self._free.wait()


class AsgiSocket(ScopeOrigin):
    """One WebSocket connection, from the upgrade to the disconnect.

    The ASGI server handles pings and idle timeouts. While reading is paused, a disconnect is not
    detected, because ASGI delivers it after the pending messages.
    """

    def __init__(self, door: WebSocketDoor, scope: Scope, receive: Receive, send: Send) -> None:
        self.reading = Holds()
        super().__init__(scope)
        self._door = door
        self._receive = receive
        self._send = send
        self._turn = asyncio.Lock()
        self._owed = Owed(self.reading)
        self._over = False
        self._sending = Tasks()
        self._reader: asyncio.Task[None] | None = None

    async def run(self, refusal: InferstreamError | None = None) -> None:
        """Serve the socket until the client disconnects, then cancel its calls.

        If `refusal` is set, reject the upgrade with that error.
        """
        if (await self._receive())["type"] != "websocket.connect":
            return
        request_id = self._door.request_ids.choose_from_headers(self._scope["headers"])
        own: RawHeaders = [] if request_id is None else [(HEADER, request_id)]
        try:
            if refusal is not None:
                raise refusal
            listener = self._door.open(self, self._scope["path"], self._scope["headers"], request_id)
        except Exception as error:
            await self._refuse(wrap(error), own)
            return
        subprotocol = choose_subprotocol(self._scope.get("subprotocols") or ())
        try:
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": own})
            self._reader = asyncio.create_task(self._read(listener.receive))
            await asyncio.wait([self._reader])
            if not self._reader.cancelled():
                self._reader.result()
        finally:
            self._drop()
            listener.lost()
            self._sending.cancel()

    async def _refuse(self, error: InferstreamError, own: RawHeaders) -> None:
        """Reject the upgrade with an HTTP error.

        If the ASGI server does not support that, close the socket instead, which servers turn into status
        403.
        """
        if REFUSAL not in (self._scope.get("extensions") or {}):
            await self._send({"type": "websocket.close"})
            return
        body = orjson.dumps(error_document(error))
        headers: RawHeaders = [JSON, (b"content-length", b"%d" % len(body)), *http_headers(error), *own]
        status = status_of(error, self._door.profile).http
        await self._send({"type": f"{REFUSAL}.start", "status": status, "headers": headers})
        await self._send({"type": f"{REFUSAL}.body", "body": body})

    async def _read(self, received: Callable[[bytes, bool], None]) -> None:
        while (message := await self._receive())["type"] == "websocket.receive":
            text = message.get("text")
            data = message["bytes"] if text is None else text.encode()
            if self._over:
                continue
            if len(data) > self._door.max_message:
                self.fail(1009, self._door.too_large)
                continue
            received(data, text is not None)
            await asyncio.sleep(0)  # yield, so that a busy client does not block the loop
            await self.reading.wait_until_free()

    async def send(self, message: bytes, text: bool) -> None:
        async with self._turn:
            if not self._over:
                content = {"text": message.decode()} if text else {"bytes": message}
                await self._send_within({"type": "websocket.send", **content})

    def put(self, message: bytes, text: bool) -> None:
        self._owed.add(len(message))
        self._sending.start(self._put(message, text))

    async def _put(self, message: bytes, text: bool) -> None:
        await self.send(message, text)
        self._owed.add(-len(message))

    def fail(self, code: int, reason: str) -> None:
        if not self._over:
            self._over = True
            self._sending.start(self._close(code, reason))

    async def _close(self, code: int, reason: str) -> None:
        async with self._turn:
            await self._send_within({"type": "websocket.close", "code": code, "reason": reason})

    def handle_idle(self) -> None:
        """Do nothing, because the ASGI server closes its sockets itself."""

    async def _send_within(self, message: dict[str, Any]) -> None:
        """Send a message, and drop the client if it does not read within `stall` seconds."""
        try:
            async with asyncio.timeout(self._door.stall):
                await self._send(message)
        except TimeoutError:
            logger.warning(
                "WebSocket: client has not read for %g s; closing the connection", self._door.stall
            )
            self._drop()
        except OSError:  # the client has disconnected
            self._drop()

    def _drop(self) -> None:
        self._over = True
        if self._reader is not None:
            self._reader.cancel()
