"""A WebSocket over ASGI, for the conversations of `websocket.py` under any server."""

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
from .websocket import WebSocketDoor, chosen

logger = logging.getLogger("inferstream.rest")

REFUSAL = "websocket.http.response"
"""ASGI's extension that refuses an upgrade with an HTTP response."""


class Holds:
    """The reasons not to receive the next message."""

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

    async def free(self) -> None:
        """Wait until there is no reason."""
        await self._free.wait()


class AsgiSocket(ScopeOrigin):
    """One WebSocket, from its upgrade to its end.

    The server handles pings and silence. While reading is held, a disconnect is not received either, because ASGI
    delivers it in the order of the messages.
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
        """Serve the socket until its client leaves, then cancel its calls; or refuse it with `refusal`."""
        if (await self._receive())["type"] != "websocket.connect":
            return
        request_id = self._door.request_ids.among(self._scope["headers"])
        own: RawHeaders = [] if request_id is None else [(HEADER, request_id)]
        try:
            if refusal is not None:
                raise refusal
            listener = self._door.open(self, self._scope["path"], self._scope["headers"], request_id)
        except Exception as error:
            await self._refuse(wrap(error), own)
            return
        subprotocol = chosen(self._scope.get("subprotocols") or ())
        try:
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": own})
            self._reader = asyncio.create_task(self._read(listener.received))
            await asyncio.wait([self._reader])
            if not self._reader.cancelled():
                self._reader.result()
        finally:
            self._drop()
            listener.lost()
            self._sending.cancel()

    async def _refuse(self, error: InferstreamError, own: RawHeaders) -> None:
        """Refuse the upgrade with an HTTP error, or by a close, which servers turn into 403."""
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
            await asyncio.sleep(0)  # a client that sends much must not block the loop
            await self.reading.free()

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

    def rest(self) -> None:
        """Do nothing: the ASGI server closes its sockets itself."""

    async def _send_within(self, message: dict[str, Any]) -> None:
        """Send a message, and drop a client that reads nothing for `stall` seconds."""
        try:
            async with asyncio.timeout(self._door.stall):
                await self._send(message)
        except TimeoutError:
            logger.warning("a WebSocket's client has read nothing for %g s; dropping it", self._door.stall)
            self._drop()
        except OSError:  # the client has left
            self._drop()

    def _drop(self) -> None:
        self._over = True
        if self._reader is not None:
            self._reader.cancel()
