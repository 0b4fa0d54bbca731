"""Handlers of RPCs over bytes. They count each RPC, and map each error to a status."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from grpc.aio import EOF  # type: ignore[attr-defined]  # missing from the stubs

from ...errors import InferstreamError, InvalidRequest
from ...telemetry.rpcs import RpcMeters
from ..status import Profile, grpc_status, retry_after
from .context import RpcContext

if TYPE_CHECKING:
    RpcHandler = grpc.RpcMethodHandler[bytes, bytes]
else:
    RpcHandler = grpc.RpcMethodHandler  # generic for type checkers alone

logger = logging.getLogger("inferstream.grpc")

Request = TypeVar("Request")
Parsed = TypeVar("Parsed", covariant=True)


class RequestType(Protocol[Parsed]):
    """The class of a message, or a reader in its place."""

    def FromString(self, data: bytes, /) -> Parsed: ...


class RpcExchange(Generic[Request]):
    """The messages of a stream in both directions."""

    def __init__(self, context: RpcContext, request: RequestType[Request], meters: RpcMeters) -> None:
        self.context = context
        self._request = request
        self._meters = meters

    async def read(self) -> Request | None:
        """The next request, or None when the client has half-closed. Raises InvalidRequest."""
        data = await self.context.read()
        if data is EOF:
            return None
        self._meters.received += 1
        return parse(self._request, data)

    def __aiter__(self) -> AsyncIterator[Request]:
        return self

    async def __anext__(self) -> Request:
        if (message := await self.read()) is None:
            raise StopAsyncIteration
        return message

    def write(self, data: bytes) -> Awaitable[None]:
        """Send the bytes of a message, and wait while the client does not read."""
        self._meters.sent += 1
        return self.context.write(data)


Unary = Callable[[Request, RpcContext], Awaitable[Message | bytes]]
"""Serves a request with a response or its bytes."""

Streaming = Callable[[RpcExchange[Request]], Awaitable[None]]

ServeRpc = Callable[[bytes, RpcContext], Awaitable[bytes | None]]
"""Serves an RPC, given the bytes of its request. A streaming RPC reads from the context instead."""

Around = Callable[[ServeRpc], ServeRpc]
"""Wraps the function that serves an RPC."""


def unary(
    behaviour: Unary[Request],
    request: RequestType[Request],
    meters: RpcMeters,
    profile: Profile,
    around: Around,
) -> RpcHandler:
    """The handler of an RPC with one request and one response."""

    async def serve(data: bytes, context: RpcContext) -> bytes:
        meters.received += 1
        # Parsed here, because the library's own status would be UNKNOWN with the parser's message.
        response = await behaviour(parse(request, data), context)
        meters.sent += 1
        return response if isinstance(response, bytes) else response.SerializeToString()

    return grpc.unary_unary_rpc_method_handler(around(_ended(serve, meters, profile)))


def streaming(
    behaviour: Streaming[Request],
    request: RequestType[Request],
    meters: RpcMeters,
    profile: Profile,
    around: Around,
) -> RpcHandler:
    """The handler of a streaming RPC; one with a single request reads the first message."""

    async def serve(_: object, context: RpcContext) -> None:
        await behaviour(RpcExchange(context, request, meters))

    return grpc.stream_stream_rpc_method_handler(around(_ended(serve, meters, profile)))


def parse(request: RequestType[Request], data: bytes) -> Request:
    """The message of type `request` in `data`. Raises InvalidRequest."""
    try:
        return request.FromString(data)
    except DecodeError:
        # Not an attribute of the protocol, because protobuf's stubs have it on messages and not on classes.
        name = vars(request)["DESCRIPTOR"].name
        raise InvalidRequest(f"The message is not a {name}.") from None


def _ended(serve: ServeRpc, meters: RpcMeters, profile: Profile) -> ServeRpc:
    """`serve` with meters, and with a status for each error: the library's own would be UNKNOWN with its text."""

    async def ended(incoming: bytes, context: RpcContext) -> bytes | None:
        meters.started += 1
        began = perf_counter()
        status = "CANCELLED"
        try:
            response = await serve(incoming, context)
            status = "OK"
            return response
        except (Exception, asyncio.CancelledError) as error:
            if _client_has_left(error):
                raise
            code, message = outcome(error, profile)
            status = code.name
            seconds_until_retry = retry_after(error)
            trailing = () if seconds_until_retry is None else (("retry-after", str(seconds_until_retry)),)
            await context.abort(code, message, trailing)
            raise AssertionError("abort always raises") from None
        finally:
            seconds = perf_counter() - began
            meters.ended(status, seconds)
            if logger.isEnabledFor(logging.DEBUG) and not meters.unlogged:
                logger.debug("%s %s, %.6f s", meters.name, status, seconds)

    return ended


def _client_has_left(error: BaseException) -> bool:
    """Whether the client has left: a message could not be sent, or the library cancelled the call.

    A cancellation that the library did not request is a failure, and the client waits for its status.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, grpc.aio.InternalError)


def outcome(error: BaseException, profile: Profile) -> tuple[grpc.StatusCode, str]:
    """The status of an error; one outside our tree is logged, and its status has no details."""
    if not isinstance(error, InferstreamError):
        logger.error("a gRPC call failed", exc_info=error)
    return grpc_status(error, profile)
