"""The gRPC transport of the clients."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from ..concurrency.scope import is_own_cancel
from ..errors import CallFailed, ConnectionFailed, InvalidRequest, MissingExtra
from ..protos.converters import (
    ModelMetadataResponseConverter,
    RepositoryIndexResponseConverter,
)
from ..protos.dataplane_pb2 import (
    ModelInferRequest,
    ModelInferResponse,
    ModelMetadataRequest,
    ModelReadyRequest,
    RepositoryIndexRequest,
    ServerReadyRequest,
)
from ..protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from ..protos.grpc import FIELDS, build_request_message, parse_response
from ..statuses import HTTP_OF_GRPC
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    RepositoryIndexResponse,
)
from .failures import build_invalid_response_error, build_missing_server_error, parse_retry_after, rejection
from .feeding import feeding
from .transport import ModelName, OutgoingCall, Target

try:
    import grpc
except ModuleNotFoundError as missing:
    raise MissingExtra("a client over gRPC", "grpc", missing) from None

from .channel import open_channel  # it also imports grpc

RETRYABLE = frozenset((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED))
"""Statuses of calls that can be retried.

A server with a full queue returns RESOURCE_EXHAUSTED, the equivalent of HTTP 429.
"""

REFUSED = re.compile(r"ipv[46]:(\S+): .*Connection refused", re.IGNORECASE)
"""The message that grpc generates for an address on which no server listens."""

NOT_CONNECTED = ("failed to connect", "DNS resolution failed", "empty address list")
"""The prefixes of UNAVAILABLE messages that grpc generates if it cannot connect."""

T = TypeVar("T")
Sent = TypeVar("Sent")
Received = TypeVar("Received")


class ModelRpcs(NamedTuple):
    """The two RPCs of one model, with functions that convert requests and responses to and from messages."""

    unary: "grpc.aio.UnaryUnaryMultiCallable[Any, Any]"
    stream: "grpc.aio.StreamStreamMultiCallable[Any, Any]"
    write: Callable[[InferenceRequest], Any]
    read: Callable[[Any], InferenceResponse]


class GrpcTransport:
    """A transport over one channel, which the first call opens."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._channel: grpc.aio.Channel | None = None
        self._stub: GRPCInferenceServiceStub | None = None

    async def rpcs(self, call: OutgoingCall) -> ModelRpcs:
        """Return the RPCs for the model of a call. Raises CallFailed."""
        stub = self._stub or await self._open()
        write = partial(_message, call)
        return ModelRpcs(stub.ModelInfer, stub.ModelStreamInfer, write, _parse_response)

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        rpcs = await self.rpcs(call)
        message = rpcs.write(call.request)
        with convert_errors():
            response = await rpcs.unary(
                message, metadata=_metadata(call.headers), timeout=_finite_timeout(call.timeout)
            )
        return rpcs.read(response)

    def encode(self, call: OutgoingCall) -> tuple[dict[str, str], bytes]:
        """Return no headers, and the serialized message of the RPC. Raises InvalidRequest."""
        return {}, _message(call, call.request).SerializeToString()

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        rpcs = await self.rpcs(call)
        rpc = rpcs.stream(None, metadata=_metadata(call.headers), timeout=_finite_timeout(call.timeout))
        async with aclosing(_exchange(rpc, _messages(call, rpcs.write))) as responses:
            async for response in responses:
                yield rpcs.read(response)

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse:
        message = ModelMetadataRequest(name=model.name, version=model.version or "")
        return ModelMetadataResponseConverter.to_types(await self._call("ModelMetadata", message, timeout))

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        message = RepositoryIndexRequest(ready=True)
        return RepositoryIndexResponseConverter.to_types(
            await self._call("RepositoryIndex", message, timeout)
        )

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        try:
            if model is None:
                response = await self._call("ServerReady", ServerReadyRequest(), timeout)
            else:
                message = ModelReadyRequest(name=model.name, version=model.version or "")
                response = await self._call("ModelReady", message, timeout)
        except CallFailed as error:
            if error.status is None:
                raise
            return False
        return bool(response.ready)

    async def _call(self, rpc: str, message: Any, timeout: float) -> Any:
        stub = self._stub or await self._open()
        with convert_errors():
            metadata = _metadata(self._target.headers)
            return await getattr(stub, rpc)(message, metadata=metadata, timeout=_finite_timeout(timeout))

    async def channel(self) -> grpc.aio.Channel:
        """Return the channel, for other RPCs. Raises CallFailed."""
        if self._channel is None:
            await self._open()
        assert self._channel is not None
        return self._channel

    async def _open(self) -> GRPCInferenceServiceStub:
        channel = await open_channel(self._target)
        if self._channel is None:  # another call may have opened one in between
            self._channel = channel
            self._stub = GRPCInferenceServiceStub(channel)
        else:
            await channel.close(None)
        assert self._stub is not None
        return self._stub

    async def aclose(self) -> None:
        if self._channel is not None:
            await self._channel.close(None)


async def _exchange(
    rpc: "grpc.aio.StreamStreamCall[Sent, Received]", messages: AsyncIterator[Sent]
) -> AsyncGenerator[Received, None]:
    """Yield the responses of a call while `messages` are sent. Closing the generator cancels the call."""
    # If the server ends the call while a message is being sent, grpc replaces the status with its own.
    statuses: list[grpc.aio.AioRpcError] = []
    rpc.add_done_callback(lambda _: statuses.append(_build_error(rpc)))
    try:
        async with feeding(_send(rpc, messages), rpc.cancel):
            with convert_errors():
                try:
                    async for response in rpc:
                        yield response
                except grpc.aio.AioRpcError:
                    if statuses[0].code() is not grpc.StatusCode.OK:
                        raise statuses[0] from None
    finally:
        rpc.cancel()


def _build_error(rpc: "grpc.aio.StreamStreamCall[Sent, Received]") -> grpc.aio.AioRpcError:
    trailing = _get_result(rpc.trailing_metadata())
    return grpc.aio.AioRpcError(
        _get_result(rpc.code()), grpc.aio.Metadata(), trailing, _get_result(rpc.details()), ""
    )


def _get_result(awaitable: Awaitable[T]) -> T:
    """Return the result of an awaitable that is already done."""
    try:
        next(awaitable.__await__())
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("the call has not ended")


async def _send(rpc: "grpc.aio.StreamStreamCall[Sent, Received]", messages: AsyncIterator[Sent]) -> None:
    try:
        async for message in messages:
            await rpc.write(message)
        await rpc.done_writing()
    except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
        return  # the reader of responses receives the status


async def _messages(call: OutgoingCall, write: Callable[[InferenceRequest], Sent]) -> AsyncIterator[Sent]:
    yield write(call.request)
    if call.more is not None:
        async for request in call.more:
            yield write(request)


def _message(call: OutgoingCall, request: InferenceRequest) -> ModelInferRequest:
    raw = call.binary or any(tensor.datatype not in FIELDS for tensor in request.inputs)
    return build_request_message(request, call.model.name, call.model.version, raw)


def _metadata(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers.items()]


def _finite_timeout(timeout: float) -> float | None:
    return None if timeout == math.inf else timeout


def _parse_response(message: ModelInferResponse) -> InferenceResponse:
    try:
        return parse_response(message)
    except InvalidRequest as error:
        raise build_invalid_response_error(error) from None


@contextmanager
def convert_errors() -> Iterator[None]:
    """Convert grpc errors to CallFailed."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _convert_error(error) from None
    except asyncio.CancelledError as error:
        if is_own_cancel(error):
            raise
        # grpc raises this if the server returns the status CANCELLED.
        raise rejection("The server cancelled the call.", 499, "CANCELLED") from None


def _convert_error(error: grpc.aio.AioRpcError) -> CallFailed:
    code, message = error.code(), error.details() or ""
    pairs = cast("Iterable[tuple[str, str]]", error.trailing_metadata() or ())  # the type stubs lack it
    trailing = dict(pairs)
    if code is grpc.StatusCode.UNAVAILABLE and not trailing:
        # An UNAVAILABLE from inferstream always has a retry delay, so grpc itself generated this one.
        lost = message.startswith(NOT_CONNECTED)
        if lost and (refused_at := REFUSED.search(message)) is not None:
            return build_missing_server_error(refused_at[1], "the connection was refused", code.name)
        return ConnectionFailed(message, retryable=True, unreachable=lost, status_name=code.name)
    seconds = parse_retry_after(trailing.get("retry-after"))
    if (
        seconds is None
        and (pushback := parse_retry_after(trailing.get("grpc-retry-pushback-ms"))) is not None
    ):
        seconds = pushback / 1000
    status = HTTP_OF_GRPC.get(code.name, 500)
    return rejection(message, status, code.name, code in RETRYABLE, seconds)
