"""Calls over gRPC."""

import asyncio
import math
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
from ..protos.grpc import FIELDS, request_to, response_from
from ..statuses import HTTP_OF_GRPC
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    RepositoryIndexResponse,
)
from .failures import no_response, refused, seconds_of
from .feeding import feeding
from .transport import ModelName, OutgoingCall, Target

try:
    import grpc
except ModuleNotFoundError as missing:
    raise MissingExtra("a client over gRPC", "grpc", missing) from None

from .channel import open_channel  # it imports grpc too

RETRYABLE = frozenset((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED))
"""A server with a full queue returns RESOURCE_EXHAUSTED, the 429 of gRPC."""

NOT_CONNECTED = ("failed to connect", "DNS resolution failed", "empty address list")
"""How messages of UNAVAILABLE begin, in lower case or as here, when the library had no connection to send to."""

T = TypeVar("T")
Sent = TypeVar("Sent")
Received = TypeVar("Received")


class ModelRpcs(NamedTuple):
    """The two RPCs of one model: their requests and responses as messages."""

    unary: "grpc.aio.UnaryUnaryMultiCallable[Any, Any]"
    stream: "grpc.aio.StreamStreamMultiCallable[Any, Any]"
    write: Callable[[InferenceRequest], Any]
    read: Callable[[Any], InferenceResponse]


class GrpcTransport:
    """One channel to a server, opened by the first call."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._channel: grpc.aio.Channel | None = None
        self._stub: GRPCInferenceServiceStub | None = None

    async def rpcs(self, call: OutgoingCall) -> ModelRpcs:
        """How the model of a call is asked. Raises CallFailed."""
        stub = self._stub or await self._open()
        write = partial(_message, call)
        return ModelRpcs(stub.ModelInfer, stub.ModelStreamInfer, write, _response_in)

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        rpcs = await self.rpcs(call)
        message = rpcs.write(call.request)
        with failures():
            response = await rpcs.unary(
                message, metadata=_metadata(call.headers), timeout=_bounded(call.timeout)
            )
        return rpcs.read(response)

    def encode(self, call: OutgoingCall) -> tuple[dict[str, str], bytes]:
        """No headers, and the message of the RPC. Raises InvalidRequest."""
        return {}, _message(call, call.request).SerializeToString()

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        rpcs = await self.rpcs(call)
        rpc = rpcs.stream(None, metadata=_metadata(call.headers), timeout=_bounded(call.timeout))
        async with aclosing(_exchanged(rpc, _messages(call, rpcs.write))) as responses:
            async for response in responses:
                yield rpcs.read(response)

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse:
        message = ModelMetadataRequest(name=model.name, version=model.version or "")
        return ModelMetadataResponseConverter.to_types(await self._ask("ModelMetadata", message, timeout))

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        message = RepositoryIndexRequest(ready=True)
        return RepositoryIndexResponseConverter.to_types(await self._ask("RepositoryIndex", message, timeout))

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        try:
            if model is None:
                response = await self._ask("ServerReady", ServerReadyRequest(), timeout)
            else:
                message = ModelReadyRequest(name=model.name, version=model.version or "")
                response = await self._ask("ModelReady", message, timeout)
        except CallFailed as error:
            if error.status is None:
                raise
            return False
        return bool(response.ready)

    async def _ask(self, rpc: str, message: Any, timeout: float) -> Any:
        stub = self._stub or await self._open()
        with failures():
            metadata = _metadata(self._target.headers)
            return await getattr(stub, rpc)(message, metadata=metadata, timeout=_bounded(timeout))

    async def channel(self) -> grpc.aio.Channel:
        """The channel, for further RPCs. Raises CallFailed."""
        if self._channel is None:
            await self._open()
        assert self._channel is not None
        return self._channel

    async def _open(self) -> GRPCInferenceServiceStub:
        channel = await open_channel(self._target)
        if self._channel is None:  # another call may have opened one meanwhile
            self._channel = channel
            self._stub = GRPCInferenceServiceStub(channel)
        else:
            await channel.close(None)
        assert self._stub is not None
        return self._stub

    async def aclose(self) -> None:
        if self._channel is not None:
            await self._channel.close(None)


async def _exchanged(
    rpc: "grpc.aio.StreamStreamCall[Sent, Received]", messages: AsyncIterator[Sent]
) -> AsyncGenerator[Received, None]:
    """The responses of a call, to which `messages` are sent meanwhile. Closing it cancels the call."""
    # If a message is on its way when the server ends the call, the library replaces the status by its own.
    statuses: list[grpc.aio.AioRpcError] = []
    rpc.add_done_callback(lambda _: statuses.append(_status_of(rpc)))
    try:
        async with feeding(_send(rpc, messages), rpc.cancel):
            with failures():
                try:
                    async for response in rpc:
                        yield response
                except grpc.aio.AioRpcError:
                    if statuses[0].code() is not grpc.StatusCode.OK:
                        raise statuses[0] from None
    finally:
        rpc.cancel()


def _status_of(rpc: "grpc.aio.StreamStreamCall[Sent, Received]") -> grpc.aio.AioRpcError:
    trailing = _now(rpc.trailing_metadata())
    return grpc.aio.AioRpcError(_now(rpc.code()), grpc.aio.Metadata(), trailing, _now(rpc.details()), "")


def _now(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable that has one already."""
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
        return  # the reader of responses gets the status


async def _messages(call: OutgoingCall, write: Callable[[InferenceRequest], Sent]) -> AsyncIterator[Sent]:
    yield write(call.request)
    if call.more is not None:
        async for request in call.more:
            yield write(request)


def _message(call: OutgoingCall, request: InferenceRequest) -> ModelInferRequest:
    raw = call.binary or any(tensor.datatype not in FIELDS for tensor in request.inputs)
    return request_to(request, call.model.name, call.model.version, raw)


def _metadata(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers.items()]


def _bounded(timeout: float) -> float | None:
    return None if timeout == math.inf else timeout


def _response_in(message: ModelInferResponse) -> InferenceResponse:
    try:
        return response_from(message)
    except InvalidRequest as error:
        raise no_response(error) from None


@contextmanager
def failures() -> Iterator[None]:
    """Raise CallFailed in place of the errors of grpc."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _failure(error) from None
    except asyncio.CancelledError as error:
        if is_own_cancel(error):
            raise
        # The library raises this for a status CANCELLED of the server.
        raise refused("The server cancelled the call.", 499, "CANCELLED") from None


def _failure(error: grpc.aio.AioRpcError) -> CallFailed:
    code, message = error.code(), error.details() or ""
    pairs = cast("Iterable[tuple[str, str]]", error.trailing_metadata() or ())  # the stubs type none
    trailing = dict(pairs)
    if code is grpc.StatusCode.UNAVAILABLE and not trailing:
        # A status of a server of ours says when to call again, so this is one that the library has made.
        lost = message.startswith(NOT_CONNECTED)
        return ConnectionFailed(message, retryable=True, unreachable=lost, status_name=code.name)
    seconds = seconds_of(trailing.get("retry-after"))
    if seconds is None and (pushback := seconds_of(trailing.get("grpc-retry-pushback-ms"))) is not None:
        seconds = pushback / 1000
    status = HTTP_OF_GRPC.get(code.name, 500)
    return refused(message, status, code.name, code in RETRYABLE, seconds)
