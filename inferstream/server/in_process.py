"""In-process calls to an application's models, with the return values and errors of a client."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ..clients.failures import RETRYABLE, rejection
from ..clients.transport import ModelName, OutgoingCall
from ..concurrency.channel import Channel
from ..concurrency.scope import ClientLeft, Scope
from ..dataplane.call import Operation, header_interval, header_priority
from ..dataplane.caller import Caller
from ..dataplane.dataplane import DataPlane
from ..dataplane.reply import Reply
from ..errors import CallFailed, InferstreamError, NotStarted
from ..statuses import HTTP_OF_CODE
from ..types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    RepositoryIndexResponse,
    TensorData,
)
from .request_ids import RequestIds, set_request_id
from .status import Profile, retry_after, status_of

AHEAD = 1
"""The maximum number of a stream's responses that are buffered ahead of the reader."""


class InProcessCalls:
    """Calls the models of a dataplane without a transport. Raises the errors of models and stages unchanged.

    Each call runs in its own task, because model code may change context variables.
    """

    def __init__(self, dataplane: DataPlane, is_started: Callable[[], bool]) -> None:
        self._dataplane = dataplane
        self._is_started = is_started

    def require_start(self) -> None:
        """Raise NotStarted unless every model has loaded or failed."""
        if not self._is_started():
            raise NotStarted

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        reply = await asyncio.create_task(self._open(Operation.INFER, call))
        assert reply.first is not None
        return reply.first

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        """Yield each response. Up to `AHEAD` responses are buffered.

        Closing the stream runs the model's `finally` blocks.
        """
        responses: Channel[InferenceResponse] = Channel(AHEAD)
        reading = asyncio.create_task(self._read_into(responses, call))
        try:
            async for response in responses:
                yield response
        finally:
            responses.close()
            if not reading.done():
                Scope(reading).end(ClientLeft())
                await asyncio.wait([reading])

    async def _read_into(self, responses: Channel[InferenceResponse], call: OutgoingCall) -> None:
        try:
            async with await self._open(Operation.STREAM, call) as reply:
                async for response in reply:
                    responses.put(response)
                    if not responses.has_room():
                        await responses.room()
        except BaseException as error:  # every error is passed to the reader
            responses.end(error)
        else:
            responses.end()

    async def _open(self, operation: Operation, call: OutgoingCall) -> Reply:
        self.require_start()
        sent = None if call.request.parameters is None else call.request.parameters.headers
        raw = {name.lower(): str(value) for name, value in {**(sent or {}), **call.headers}.items()}
        encoded = [(name.encode(), value.encode("latin-1", "replace")) for name, value in raw.items()]
        set_request_id(RequestIds().choose_from_headers(encoded) or b"")
        caller = Caller(Headers([*raw.items()]), "", asyncio.current_task())
        caller.priority = header_priority(raw.get("x-request-priority"))
        caller.pace = header_interval(dict(encoded).get(b"x-items-per-second"))
        if call.timeout != math.inf:
            caller.deadline = asyncio.get_running_loop().time() + call.timeout
        admission = await self._dataplane.load_and_admit(call.model.name, call.model.version, caller)
        return await admission.open(operation, _copy_request(call.request), call.more)


class InProcessTransport:
    """The transport of a client in the server's process. Errors have the same HTTP status as over REST."""

    def __init__(self, calls: InProcessCalls, dataplane: DataPlane, profile: Profile) -> None:
        self._calls = calls
        self._dataplane = dataplane
        self._profile = profile

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        try:
            return _copy_response(await self._calls.infer(call))
        except InferstreamError as error:
            raise self._failure(error) from error

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        has_begun = False
        async with aclosing(self._calls.stream(call)) as responses:
            try:
                async for response in responses:
                    has_begun = True
                    yield _copy_response(response)
            except InferstreamError as error:
                if has_begun:  # as in server-sent events, which have a code but no status
                    raise rejection(error.message, HTTP_OF_CODE[error.code.value]) from error
                raise self._failure(error) from error

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse:
        try:
            self._calls.require_start()
            return await self._dataplane.model_metadata(model.name, model.version)
        except InferstreamError as error:
            raise self._failure(error) from error

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        caller = Caller(Headers(()), "")
        return RepositoryIndexResponse(await self._dataplane.index(caller, ready=True))

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        if model is None:
            return self._dataplane.ready
        return self._dataplane.model_ready(model.name, model.version)

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""

    def _failure(self, error: InferstreamError) -> CallFailed:
        status = status_of(error, self._profile).http
        return rejection(error.message, status, retryable=status in RETRYABLE, retry_after=retry_after(error))


def _copy_request(request: InferenceRequest) -> InferenceRequest:
    """Copy the request's arrays and parameters, so that the caller does not see changes by the model."""
    inputs = [tensor.model_copy(update={"data": _copy_data(tensor.data)}) for tensor in request.inputs]
    parameters = request.parameters
    own = parameters.model_copy() if parameters is not None and parameters.given else None
    return InferenceRequest.of(inputs, request.id, own, request.outputs)


def _copy_response(response: InferenceResponse) -> InferenceResponse:
    """Copy the response's arrays, because they may be part of the model's state or a cache entry."""
    outputs = [output.model_copy(update={"data": _copy_data(output.data)}) for output in response.outputs]
    return response.model_copy(update={"outputs": outputs})


def _copy_data(data: TensorData) -> TensorData:
    return data if data.array is None else TensorData(data.array.copy(), checked=data.checked)
