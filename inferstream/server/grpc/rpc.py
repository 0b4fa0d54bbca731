"""RPCs over bytes, for any engine. They count each call, and map each error to a status."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from ...concurrency.scope import FAILURES, ClientLeft, is_own_cancel
from ...errors import InferstreamError, InvalidRequest
from ...telemetry.rpcs import RpcMeters
from ..status import Profile, retry_after
from .context import RpcContext
from .statuses import StatusCode, grpc_status

logger = logging.getLogger("inferstream.grpc")

Request = TypeVar("Request")
Parsed = TypeVar("Parsed", covariant=True)


class RpcFailed(Exception):
    """The status with which a call ends, and its trailing metadata beside that of the context."""

    def __init__(self, code: StatusCode, message: str, trailing: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.trailing = trailing


@dataclass(frozen=True, slots=True, eq=False)
class ServedRpc:
    """One RPC. Its meters, spans and statuses are inside `serve`, so that an engine adds none."""

    path: str
    """Such as `/inference.GRPCInferenceService/ModelInfer`."""
    client_streams: bool
    server_streams: bool
    serve: "ServeRpc"


class Rpcs(Protocol):
    """The RPCs that an engine serves."""

    def find(self, path: str) -> ServedRpc | None:
        """The RPC at this path; None for one that is not implemented."""


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
        if data is None:
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

ServeRpc = Callable[[bytes | None, RpcContext], Awaitable[bytes | None]]
"""Serves a call. A unary RPC takes and returns the bytes of a message, also in a bytearray or a memoryview.

A streaming RPC takes and returns None. It reads and writes through the context. Raises RpcFailed for each failure
that the client must see, ClientLeft of the context, and passes the cancel of its task by the engine.
"""

Around = Callable[[ServeRpc], ServeRpc]
"""Wraps the function that serves an RPC."""


def unary(
    behaviour: Unary[Request],
    request: RequestType[Request],
    meters: RpcMeters,
    profile: Profile,
    around: Around,
) -> ServedRpc:
    """An RPC with one request and one response."""

    async def serve(data: bytes | None, context: RpcContext) -> bytes:
        assert data is not None
        meters.received += 1
        response = await behaviour(parse(request, data), context)
        meters.sent += 1
        return response if isinstance(response, bytes) else response.SerializeToString()

    return ServedRpc(meters.path, False, False, around(_ended(serve, meters, profile)))


def streaming(
    behaviour: Streaming[Request],
    request: RequestType[Request],
    meters: RpcMeters,
    profile: Profile,
    around: Around,
) -> ServedRpc:
    """An RPC with a stream in one direction or both; one with a single request reads the first message."""

    def serve(_: bytes | None, context: RpcContext) -> Awaitable[None]:
        return behaviour(RpcExchange(context, request, meters))

    client, server = meters.kind != "SERVER_STREAMING", meters.kind != "CLIENT_STREAMING"
    return ServedRpc(meters.path, client, server, around(_ended(serve, meters, profile)))


def parse(request: RequestType[Request], data: bytes) -> Request:
    """The message of type `request` in `data`. Raises InvalidRequest."""
    try:
        return request.FromString(data)
    except DecodeError:
        # Not an attribute of the protocol, because protobuf's stubs have it on messages and not on classes.
        name = vars(request)["DESCRIPTOR"].name
        raise InvalidRequest(f"The message is not a {name}.") from None


def _ended(serve: ServeRpc, meters: RpcMeters, profile: Profile) -> ServeRpc:
    """`serve` with meters, and with a status for each error."""

    async def ended(incoming: bytes | None, context: RpcContext) -> bytes | None:
        meters.started += 1
        began = perf_counter()
        status = "CANCELLED"
        try:
            response = await serve(incoming, context)
            status = "OK"
            return response
        except FAILURES as error:
            # The client waits for the status of a cancel that the engine did not request.
            if isinstance(error, ClientLeft) or is_own_cancel(error):
                raise
            code, message = outcome(error, profile)
            status = code.name
            seconds_until_retry = retry_after(error)
            trailing = () if seconds_until_retry is None else (("retry-after", str(seconds_until_retry)),)
            raise RpcFailed(code, message, trailing) from error
        finally:
            seconds = perf_counter() - began
            meters.ended(status, seconds)
            if logger.isEnabledFor(logging.DEBUG) and not meters.unlogged:
                logger.debug("%s %s, %.6f s", meters.name, status, seconds)

    return ended


def outcome(error: BaseException, profile: Profile) -> tuple[StatusCode, str]:
    """The status of an error; one outside our tree is logged, and its status has no details."""
    if not isinstance(error, InferstreamError):
        logger.error("a gRPC call failed", exc_info=error)
    return grpc_status(error, profile)
