"""RPCs that accept and return bytes, for any engine, with metrics and error statuses."""

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
    """The final status of a failed call, with trailing metadata to add to the metadata of the context."""

    def __init__(self, code: StatusCode, message: str, trailing: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.trailing = trailing


@dataclass(frozen=True, slots=True, eq=False)
class Rpc:
    """One RPC. `serve` includes metrics, tracing and error statuses, so engines do not add any."""

    path: str
    """The path, such as `/inference.GRPCInferenceService/ModelInfer`."""
    client_streams: bool
    server_streams: bool
    serve: "ServeRpc"


class Rpcs(Protocol):
    """The RPCs that an engine serves."""

    def find(self, path: str) -> Rpc | None:
        """Return the RPC at a path, or None if it is not implemented."""


class RequestType(Protocol[Parsed]):
    """A message class, or a reader that replaces it."""

    def FromString(self, data: bytes, /) -> Parsed: ...


class RpcExchange(Generic[Request]):
    """The messages of a stream in both directions."""

    def __init__(self, context: RpcContext, request: RequestType[Request], meters: RpcMeters) -> None:
        self.context = context
        self._request = request
        self._meters = meters

    async def read(self) -> Request | None:
        """Receive the next request, or None if the client has half-closed. Raises InvalidRequest."""
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
        """Send an encoded message. Waits while the client does not read."""
        self._meters.sent += 1
        return self.context.write(data)


Unary = Callable[[Request, RpcContext], Awaitable[Message | bytes]]
"""Serves a request. Returns the response or its bytes."""

Streaming = Callable[[RpcExchange[Request]], Awaitable[None]]

ServeRpc = Callable[[bytes | None, RpcContext], Awaitable[bytes | None]]
"""Serves a call.

A unary RPC accepts and returns the bytes of a message, which may be a bytearray or memoryview. A streaming
RPC accepts and returns None, and reads and writes through the context.

Raises RpcFailed for every failure that must be reported to the client. ClientLeft and a cancellation by the
engine are propagated.
"""

Around = Callable[[ServeRpc], ServeRpc]
"""Wraps the function that serves an RPC."""


def build_unary(
    behaviour: Unary[Request],
    request: RequestType[Request],
    meters: RpcMeters,
    profile: Profile,
    around: Around,
) -> Rpc:
    """Build an RPC with one request and one response."""

    async def serve(data: bytes | None, context: RpcContext) -> bytes:
        assert data is not None
        meters.received += 1
        response = await behaviour(parse(request, data), context)
        meters.sent += 1
        return response if isinstance(response, bytes) else response.SerializeToString()

    return Rpc(meters.path, False, False, around(_with_status(serve, meters, profile)))


def build_streaming(
    behaviour: Streaming[Request],
    request: RequestType[Request],
    meters: RpcMeters,
    profile: Profile,
    around: Around,
) -> Rpc:
    """Build an RPC with a stream in one direction or both. A single request is the first message."""

    def serve(_: bytes | None, context: RpcContext) -> Awaitable[None]:
        return behaviour(RpcExchange(context, request, meters))

    client, server = meters.kind != "SERVER_STREAMING", meters.kind != "CLIENT_STREAMING"
    return Rpc(meters.path, client, server, around(_with_status(serve, meters, profile)))


def parse(request: RequestType[Request], data: bytes) -> Request:
    """Parse `data` as a message of type `request`. Raises InvalidRequest."""
    try:
        return request.FromString(data)
    except DecodeError:
        # `vars`, because the stubs of protobuf declare DESCRIPTOR on messages and not on classes.
        name = vars(request)["DESCRIPTOR"].name
        raise InvalidRequest(f"The message is not a {name}.") from None


def _with_status(serve: ServeRpc, meters: RpcMeters, profile: Profile) -> ServeRpc:
    """Wrap `serve` to update metrics and to turn each error into a status."""

    async def serve_and_count(incoming: bytes | None, context: RpcContext) -> bytes | None:
        meters.started += 1
        began = perf_counter()
        status = "CANCELLED"
        try:
            response = await serve(incoming, context)
            status = "OK"
            return response
        except FAILURES as error:
            # If model code or a library raised CancelledError, the client still needs a status.
            if isinstance(error, ClientLeft) or is_own_cancel(error):
                raise
            code, message = describe_failure(error, profile)
            status = code.name
            seconds_until_retry = retry_after(error)
            trailing = () if seconds_until_retry is None else (("retry-after", str(seconds_until_retry)),)
            raise RpcFailed(code, message, trailing) from error
        finally:
            seconds = perf_counter() - began
            meters.count_end(status, seconds)
            if logger.isEnabledFor(logging.DEBUG) and not meters.unlogged:
                logger.debug("%s %s, %.6f s", meters.name, status, seconds)

    return serve_and_count


def describe_failure(error: BaseException, profile: Profile) -> tuple[StatusCode, str]:
    """Return the status code and message for an error. Details of unexpected errors are only logged."""
    if not isinstance(error, InferstreamError):
        logger.error("gRPC call failed", exc_info=error)
    return grpc_status(error, profile)
