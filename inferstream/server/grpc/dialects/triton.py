"""Triton's dialect of a stream: many independent requests, and errors among the responses."""

import asyncio

from inferstream.ext.calls import Admission, Caller, CancelScope, ClientLeft, Operation
from inferstream.ext.rpc import ModelInferResponse, StreamDialect, StreamExchange, StreamRequest

from ....dataplane.dataplane import DataPlane
from ....dataplane.region_use import RegionUse
from ....errors import InferstreamError, InvalidRequest
from ....protos.dataplane_pb2 import InferParameter, ModelStreamInferResponse
from ....protos.dialects import FINAL_RESPONSE as FINAL
from ....protos.dialects import HEADER
from ....protos.grpc import request_from
from ....protos.grpc_messages import MessageWriter
from ....protos.grpc_requests import InferMessage
from ....protos.grpc_responses import WRITERS, length
from ....protos.regions import UsesRegions
from ....types import Headers, InferenceRequest, InferenceResponse
from ...status import Profile
from ..rpc import outcome

AT_ONCE = 64
"""Requests of one stream that may run at once; the next is read when one ends."""

WANTS_EMPTY_FINAL = "triton_enable_empty_final_response"

_INFER_RESPONSE = b"\x12"
"""Key of ModelStreamInferResponse's `infer_response`."""

_FINAL_IS = [
    # Maps accept dicts from protobuf 6 on.
    ModelInferResponse(parameters={FINAL: InferParameter(bool_param=final)}).SerializeToString()
    for final in (False, True)
]

_MISTAKEN = b"\xff: this is Triton's dialect; the metadata x-stream-dialect: mlserver asks for the other one"

NOT_MLSERVERS = b"\x1a" + length(len(_MISTAKEN)) + _MISTAKEN
"""A field 3, which Triton's message has not, and which is the `id` of MLServer's.

It is no UTF-8, so that a client which takes the first message for MLServer's cannot read it. Without it that client
would read a response without outputs.
"""

ResponseTask = asyncio.Task[None]


_HINTS = ("sequence_id", "shared_memory_region", "classification")

_AGENTS = ("grpc-python", "grpc-c++")
"""The libraries of Triton's clients. In the user agent a program's own name may precede them."""


class TritonDialect(StreamDialect):
    """Responses are ModelStreamInferResponses with an error or a ModelInferResponse."""

    name = "triton"

    @staticmethod
    def is_certain(message: InferMessage, metadata: Headers) -> bool:
        return "triton_grpc_error" in metadata or any(
            name.startswith("triton_") for name in message.parameters
        )

    @staticmethod
    def is_likely(message: InferMessage, metadata: Headers) -> bool:
        if message.raw_input_contents and _may_be_tritons(metadata.get("user-agent", "")):
            return True
        parts = (message, *message.inputs, *message.outputs)
        return any(hint in part.parameters for part in parts for hint in _HINTS)

    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        await self.announce(exchange)  # at once, because nearly every failure is a response on the stream
        chosen = HEADER in caller.headers or self.is_certain(first.message, caller.headers)
        mark = b"" if chosen else NOT_MLSERVERS
        await TritonStream(self._dataplane, self._profile, exchange, caller, mark).run(first)


def _may_be_tritons(agent: str) -> bool:
    """Whether a user agent can be a client of Triton's; stubs of other languages expect the type in the .proto."""
    return any(product.startswith(_AGENTS) for product in agent.split())


class TritonStream:
    """One stream. Responses and errors of models that only predict keep the order of their requests."""

    def __init__(
        self,
        dataplane: DataPlane,
        profile: Profile,
        exchange: StreamExchange,
        caller: Caller,
        mark: bytes,
    ) -> None:
        """`mark` is what the first response has at its end."""
        self._dataplane = dataplane
        self._profile = profile
        self._exchange = exchange
        self._caller = caller
        self._mark = mark
        self._fatal = caller.headers.get("triton_grpc_error") == "true"
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._running: set[ResponseTask] = set()
        self._reading = CancelScope(asyncio.current_task())

    async def run(self, first: StreamRequest) -> None:
        """Serve the first and every later request, until the client has half-closed and all responses are sent.

        Raises InvalidRequest for an invalid message, and the error of a response task at once, also while the
        client keeps its side open.
        """
        try:
            with self._reading:
                await self._read(first)
        except Exception:
            # After the cancellation of a write, the library could not send a status.
            await self._writing.acquire()
            raise
        finally:
            for task in self._running:
                CancelScope(task).end(ClientLeft())
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _read(self, request: StreamRequest) -> None:
        before: ResponseTask | None = None
        while True:
            await self._slots.acquire()
            if request.admission is not None and request.admission.pipeline.execution.capabilities.streams:
                self._start(asyncio.create_task(self._stream(request.message, request.admission)))
            else:
                before = self._start(asyncio.create_task(self._predict(request, before)))
            if (message := await self._exchange.read()) is None:
                break
            request = await StreamRequest.admitted_of(message, self._dataplane, self._caller)
        if self._running:
            await asyncio.wait(self._running)

    def _start(self, task: ResponseTask) -> ResponseTask:
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: ResponseTask) -> None:
        self._running.discard(task)
        self._slots.release()
        failure = None if task.cancelled() else task.exception()
        if failure is not None and isinstance(failure, Exception):
            self._reading.end(failure)  # it may wait for a request that the client never sends

    async def _predict(self, request: StreamRequest, before: ResponseTask | None) -> None:
        try:
            part = await self._respond(request)
        except Exception as error:
            part = self._refusal(request.message, error)
        if before is not None:
            # A wait inside the reply would hold a slot of the model that an earlier request may need.
            await asyncio.wait([before])
        await self._send(part)

    async def _respond(self, request: StreamRequest) -> bytes:
        admission = request.admitted()
        inputs, use, _ = await self._read_request(request.message)  # a single response is the final one
        async with await admission.open(Operation.INFER, inputs) as reply:
            assert reply.first is not None
            response = reply.first if use is None else await use.store(reply.first)
            message = response.accept(WRITERS[False])
            admission.sent(len(message))
            return _part(message, final=True)

    async def _stream(self, message: InferMessage, admission: Admission) -> None:
        try:
            writer, usage = MessageWriter(typed=False), admission.usage
            inputs, use, empty_final = await self._read_request(message)
            marks, final = bool(admission.pipeline.execution.settings.triton_config), False
            async with await admission.open(Operation.STREAM, inputs) as reply:
                async for response in reply:
                    final = marks and _is_final(response)
                    if use is not None:
                        response = await use.store(response)
                    part = response.accept(writer)
                    if usage is not None:
                        usage.sent += len(part)
                    await self._send(_part(part, final))
                    del response  # freed now, while the core has it in its caches
            if empty_final and not final:
                await self._send(_part(_empty(message).SerializeToString(), final=True))
        except Exception as error:
            await self._send(self._refusal(message, error))

    async def _read_request(self, message: InferMessage) -> tuple[InferenceRequest, RegionUse | None, bool]:
        """The request in a message, what it has in shared memory, and whether it wants an empty final response."""
        try:
            empty_final = _take_empty_final(message)
            try:
                return request_from(message), None, empty_final
            except UsesRegions:
                request = request_from(message, regions=True)
                use = await RegionUse.of(self._dataplane.regions(), request, self._caller)
                return request, use, empty_final
        except InferstreamError as error:
            self._dataplane.refused(self._caller, "stream", message.model_name, error)
            raise

    async def _send(self, part: bytes) -> None:
        async with self._writing:
            if self._mark:
                part, self._mark = part + self._mark, b""
            await self._exchange.write(part)

    def _refusal(self, message: InferMessage, error: Exception) -> bytes:
        """An error as a response, which does not end the stream. Raises it if the client wants that."""
        if self._fatal:
            raise error
        _, text = outcome(error, self._profile)
        response = _empty(message)
        response.parameters[FINAL].bool_param = True
        failure = ModelStreamInferResponse(error_message=text, infer_response=response)
        return failure.SerializeToString()


def _part(response: bytes, final: bool) -> bytes:
    """A response as a message of the stream. An entry of its parameters may have any position in its bytes."""
    body = response + _FINAL_IS[final]
    return _INFER_RESPONSE + length(len(body)) + body


def _is_final(response: InferenceResponse) -> bool:
    """Whether code for Triton has sent a response as its last."""
    parameters = response.parameters
    return parameters is not None and parameters.get(FINAL) is True


def _empty(message: InferMessage) -> ModelInferResponse:
    return ModelInferResponse(
        model_name=message.model_name, model_version=message.model_version, id=message.id
    )


def _take_empty_final(message: InferMessage) -> bool:
    """Remove Triton's own parameters from a request; whether it wants an empty final response.

    Raises InvalidRequest for an unknown one.
    """
    wanted = False
    for name in [name for name in message.parameters if name.startswith("triton_")]:
        if name != WANTS_EMPTY_FINAL:
            raise InvalidRequest(f'parameter "{name}" is reserved')
        wanted = message.parameters[name].bool_param
        del message.parameters[name]
    return wanted
