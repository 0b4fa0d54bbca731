"""Recorded requests, sent again over the protocol that they came in."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from ...errors import MissingExtra
from .records import Content, Recorded, octets

OF_CONNECTIONS = frozenset(("host", "content-length", "connection", "transfer-encoding", "upgrade", "te"))
"""Headers that each connection makes for itself."""

OF_GRPC = OF_CONNECTIONS | {"user-agent", "content-type"}


class ReplayedAnswer(NamedTuple):
    """What came of a request: an HTTP status or the name of gRPC's, and the parts in order."""

    status: int | str
    parts: list[Content]


class Destination(NamedTuple):
    """A server, and how its recordings are sent there."""

    http: str
    """Such as `http://localhost:8080`."""
    grpc: str
    headers: Mapping[str, str]
    """Sent beside those that were recorded; a key, for example."""
    speed: float
    """How many times as fast; 0 for without waits."""


async def answer(destination: Destination, recorded: Recorded) -> ReplayedAnswer:
    """Send a recording. Raises OSError, httpx.HTTPError or ConnectionClosed where there is no answer."""
    send = {"http": _http, "websocket": _websocket, "grpc": _grpc}[recorded.door]
    return await send(destination, recorded)


def _headers(
    destination: Destination, recorded: Recorded, own: Set[str] = OF_CONNECTIONS, begins: tuple[str, ...] = ()
) -> dict[str, str]:
    """Headers of a request, without those that a connection makes itself: `own`, and with names that begin so."""
    own = own | {name.lower() for name in destination.headers}
    pairs = [(name.lower(), value) for name, value in recorded.request.headers]
    sent = {name: value for name, value in pairs if name not in own and not name.startswith(begins)}
    return {**sent, **destination.headers}


async def _http(destination: Destination, recorded: Recorded) -> ReplayedAnswer:
    parts: list[Content] = []
    sent = b"".join(map(octets, recorded.of("in")))
    left = sum(len(octets(part)) for part in recorded.of("out")) if recorded.left else math.inf
    method, target = recorded.request.method or "", destination.http + recorded.request.target
    leaving = recorded.seconds / destination.speed if destination.speed else 0.0
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        headers = _headers(destination, recorded)
        try:
            async with asyncio.timeout(None) as waiting:

                async def step(name: str, _: Any) -> None:
                    """A client that left without a part of the response waits as long as it did."""
                    if not left and name.endswith("send_request_body.complete"):
                        waiting.reschedule(asyncio.get_running_loop().time() + leaving)

                async with client.stream(
                    method, target, headers=headers, content=sent, extensions={"trace": step}
                ) as response:
                    async for part in response.aiter_bytes():
                        parts.append(part)
                        left -= len(part)
                        if left <= 0:
                            return ReplayedAnswer(499, parts)
                    return ReplayedAnswer(response.status_code, parts)
        except TimeoutError:
            return ReplayedAnswer(499, parts)


class FixedSocket(connect):
    """A connection that follows no redirects, because it has the operator's headers."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def _websocket(destination: Destination, recorded: Recorded) -> ReplayedAnswer:
    url = f"ws{destination.http.removeprefix('http')}{recorded.request.target}"
    headers = _headers(destination, recorded, begins=("sec-websocket",))
    async with FixedSocket(
        url, additional_headers=headers, max_size=None, compression=None, proxy=None
    ) as socket:
        parts = await _converse(destination, recorded, socket.send, socket.recv)
    return ReplayedAnswer(101, parts)


async def _grpc(destination: Destination, recorded: Recorded) -> ReplayedAnswer:
    try:
        from grpc.aio import AioRpcError, insecure_channel
    except ModuleNotFoundError as missing:
        raise MissingExtra("server replay of gRPC", "grpc", missing) from None
    metadata = [*_headers(destination, recorded, OF_GRPC, ("grpc-", ":")).items()]
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with insecure_channel(destination.grpc, options=options) as channel:
        stream: Any = channel.stream_stream(recorded.request.target, None, None)
        call = stream(metadata=metadata)
        parts: list[Content] = []
        with suppress(AioRpcError):

            async def receive() -> Content:
                message = await call.read()
                if not isinstance(message, bytes):
                    raise EOFError
                return message

            parts = await _converse(destination, recorded, call.write, receive, call.done_writing)
            if not recorded.left:
                with suppress(EOFError):
                    while True:
                        parts.append(await receive())
        if recorded.left:
            call.cancel()
        with suppress(asyncio.CancelledError):
            code = await call.code()
            return ReplayedAnswer(code.name, parts)
        return ReplayedAnswer("CANCELLED", parts)


async def _converse(
    destination: Destination,
    recorded: Recorded,
    send: Callable[[Any], Awaitable[Any]],
    receive: Callable[[], Awaitable[Any]],
    done: Callable[[], Awaitable[Any]] | None = None,
) -> list[Content]:
    """Send each message once those before it have come, and not before its time; receive as many as there were.

    `done` is called after the last one that is sent.
    """
    left = len(recorded.of("in"))
    began = perf_counter()
    parts: list[Content] = []
    with suppress(ConnectionClosed, EOFError):
        for event in recorded.events:
            if event.direction == "out":
                parts.append(await receive())
                continue
            if destination.speed:
                await asyncio.sleep(began + event.seconds / destination.speed - perf_counter())
            await send(event.content)
            left -= 1
            if not left and done is not None:
                await done()
    return parts
