"""Streams over HTTP: each response one server-sent event, on the wire as soon as it is made."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson

from ...dataplane.reply import Reply
from ...errors import InferstreamError
from ...protos import sse
from ...types import InferenceResponse
from .messages import Scope, Send, wrap
from .transport import SCOPE_KEY

logger = logging.getLogger("inferstream.rest")

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

Dump = Callable[[InferenceResponse], bytes]
"""One response as compact JSON."""


class EventStream:
    """One stream on its way to one client.

    A single timer watches it: it sends a comment when the model is silent for `heartbeat` seconds, and
    drops a client that has read nothing for `stall` seconds.
    """

    def __init__(self, send: Send, scope: Scope, heartbeat: float, stall: float) -> None:
        self._send = send
        self._connection = scope.get(SCOPE_KEY)
        self._heartbeat = heartbeat
        self._stall = stall
        self._sending_since: float | None = None
        self._last_sent = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def run(self, reply: Reply, dump: Dump, failed: Callable[[InferstreamError], bytes]) -> None:
        """Send every response of `reply` as an event; a failure becomes the last one, and the end is clean."""
        await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        self._watch()
        try:
            async for response in reply:
                await self._event(sse.event(dump(response)))
                # A generator that never waits would otherwise keep the loop, and its client's
                # leaving could not be noticed.
                await asyncio.sleep(0)
        except Exception as error:
            await self._event(failed(wrap(error)))
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._beat is not None:
                self._beat.cancel()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _event(self, body: bytes) -> None:
        self._sending_since = self._last_sent = self._loop.time()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self._sending_since = None

    def _watch(self) -> None:
        self._last_sent = self._loop.time()
        self._schedule()

    def _schedule(self) -> None:
        interval = min(self._heartbeat or self._stall, self._stall)
        self._timer = self._loop.call_later(interval, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if self._sending_since is not None:
            if now - self._sending_since >= self._stall and self._connection is not None:
                logger.warning("a stream's client has read nothing for %g s; dropping it", self._stall)
                self._connection.transport.abort()
                return
        elif self._heartbeat and now - self._last_sent >= self._heartbeat * 0.9:
            self._beat = self._loop.create_task(self._event(sse.HEARTBEAT))
        self._schedule()


def v2_failure(request_id: str | None) -> Callable[[InferstreamError], bytes]:
    """The event that ends a V2 stream in error: typed `error`, its data says what and of which request."""

    def event(error: InferstreamError) -> bytes:
        document: dict[str, Any] = {"error": error.message, "code": error.code.value}
        if request_id is not None:
            document["id"] = request_id
        return b"event: error\n" + sse.event(orjson.dumps(document))

    return event


def flat_failure(error: InferstreamError) -> bytes:
    """The event that ends a stream of Triton's generate in error; its clients know no event types."""
    return sse.event(orjson.dumps({"error": error.message}))
