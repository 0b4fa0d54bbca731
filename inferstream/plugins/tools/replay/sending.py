"""Sends recorded requests again over their original protocol."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from inferstream.errors import MissingExtra

from .records import Content, Recorded, to_wire_bytes

OF_CONNECTIONS = frozenset(("host", "content-length", "connection", "transfer-encoding", "upgrade", "te"))
"""Headers that belong to a connection and are not replayed."""

OF_GRPC = OF_CONNECTIONS | {"user-agent", "content-type"}


class ReplayedAnswer(NamedTuple):
    """The result of a replayed request: an HTTP status or gRPC status name, and the parts in order."""

    status: int | str
    parts: list[Content]


class Destination(NamedTuple):
    """The server that receives the recordings, and how they are sent."""

    http: str
    """A URL such as `http://localhost:8080`."""
    grpc: str
    headers: Mapping[str, str]
    """Headers to add to the recorded ones, such as an API key."""
    speed: float
    """The speed-up factor. With 0, the recorded times are ignored."""


async def send_recording(destination: Destination, recorded: Recorded) -> ReplayedAnswer:
    """Send a recording and return the response.

    Raises OSError, httpx.HTTPError or WebSocketException without a response, or MissingExtra for gRPC.
    """
    send = {"http": _http, "websocket": _websocket, "grpc": _grpc}[recorded.door]
    return await send(destination, recorded)


def _headers(
    destination: Destination, recorded: Recorded, own: Set[str] = OF_CONNECTIONS, begins: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the recorded headers without connection headers: those in `own`, or with a prefix in `begins`."""
    own = own | {name.lower() for name in destination.headers}
    pairs = [(name.lower(), value) for name, value in recorded.request.headers]
    sent = {name: value for name, value in pairs if name not in own and not name.startswith(begins)}
    return {**sent, **destination.headers}


async def _http(destination: Destination, recorded: Recorded) -> ReplayedAnswer:
    parts: list[Content] = []
    sent = b"".join(map(to_wire_bytes, recorded.select_contents("in")))
    left = (
        sum(len(to_wire_bytes(part)) for part in recorded.select_contents("out"))
        if recorded.left
        else math.inf
    )
    method, target = recorded.request.method or "", destination.http + recorded.request.target
    leaving = recorded.seconds / destination.speed if destination.speed else 0.0
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        headers = _headers(destination, recorded)
        try:
            async with asyncio.timeout(None) as waiting:

                async def step(name: str, _: Any) -> None:
                    """Disconnect as early as the recorded client, if it left before any response."""
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
    """A connection that does not follow redirects, because their target would get the user's headers."""

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
    """Replay a conversation. Each message is sent at its recorded time, after the earlier responses.

    `done` is called after the last message. Returns the same number of responses as the recording, or fewer
    if the server ends the stream earlier.
    """
    left = len(recorded.select_contents("in"))
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
