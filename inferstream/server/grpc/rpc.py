"""Every RPC as the library calls it: bytes in, bytes out, counted, and ended by a status of ours whatever happens."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc.aio import EOF  # type: ignore[attr-defined]  # missing from the stubs

from ...errors import InferstreamError, InvalidRequest
from ...telemetry.rpcs import RpcMeters
from ..status import Profile, grpc_status, retry_after

logger = logging.getLogger("inferstream.grpc")


class RpcExchange:
    """What a stream's two sides send each other, as messages."""

    def __init__(self, context: Any, request: Any, meters: RpcMeters) -> None:
        self.context = context
        self._request = request
        self._meters = meters

    async def read(self) -> Any:
        """The next request; None once the client has half-closed. Raises InvalidRequest for bytes that are none."""
        data = await self.context.read()
        if data is EOF:
            return None
        self._meters.received += 1
        return parse(self._request, data)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if (message := await self.read()) is None:
            raise StopAsyncIteration
        return message

    def write(self, data: bytes) -> Awaitable[None]:
        """Send the bytes of a message; waits while the client does not read."""
        self._meters.sent += 1
        written: Awaitable[None] = self.context.write(data)
        return written


Unary = Callable[[Any, Any], Awaitable[Any]]
"""Answers a message, given the RPC's context, with a message or the bytes of one."""

Streaming = Callable[[RpcExchange], Awaitable[None]]
RpcHandler = Any
"""A grpc.RpcMethodHandler, which is generic for type checkers alone."""

ServeRpc = Callable[[Any, Any], Awaitable[bytes | None]]


Around = Callable[[ServeRpc], ServeRpc]
"""What stands between the library and whatever serves an RPC."""


def unary(behaviour: Unary, request: Any, meters: RpcMeters, profile: Profile, around: Around) -> RpcHandler:
    """The handler of an RPC that takes one `request` and gives one answer."""

    async def serve(data: bytes, context: Any) -> bytes:
        meters.received += 1
        # Parsed here, because the library would call bytes that are no message UNKNOWN, and quote the parser.
        response = await behaviour(parse(request, data), context)
        meters.sent += 1
        written: bytes = response if isinstance(response, bytes) else response.SerializeToString()
        return written

    return grpc.unary_unary_rpc_method_handler(around(_ended(serve, meters, profile)))


def streaming(
    behaviour: Streaming, request: Any, meters: RpcMeters, profile: Profile, around: Around
) -> RpcHandler:
    """The handler of an RPC that streams; one that reads a single message reads the first."""

    async def serve(_: Any, context: Any) -> None:
        await behaviour(RpcExchange(context, request, meters))

    return grpc.stream_stream_rpc_method_handler(around(_ended(serve, meters, profile)))


def parse(request: Any, data: bytes) -> Any:
    """The message of type `request` in `data`. Raises InvalidRequest for bytes that are none."""
    try:
        return request.FromString(data)
    except DecodeError:
        raise InvalidRequest(f"The message is not a {request.DESCRIPTOR.name}.") from None


def _ended(serve: ServeRpc, meters: RpcMeters, profile: Profile) -> ServeRpc:
    """`serve`, counted, with a status for whatever it raises: the library's own would be UNKNOWN, and quote it."""

    async def ended(incoming: Any, context: Any) -> bytes | None:
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
    """Whether nobody waits for a status: a message could not travel, or the library cancelled the call.

    A cancel that nobody asked for is a fault like any other; passed on, it would leave the client waiting.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, grpc.aio.InternalError)


def outcome(error: BaseException, profile: Profile) -> tuple[grpc.StatusCode, str]:
    """The status of an error; one that is not of our tree is logged, and says nothing of itself."""
    if not isinstance(error, InferstreamError):
        logger.error("a gRPC call failed", exc_info=error)
    return grpc_status(error, profile)
