"""The Triton streaming protocol: independent requests, with errors among the responses."""

import asyncio

from inferstream.errors import InferstreamError, InvalidRequest
from inferstream.ext.calls import Admission, Caller, CancelScope, ClientLeft, Operation, ServerModels
from inferstream.ext.rpc import ModelInferResponse, StreamDialect, StreamExchange, StreamRequest
from inferstream.types import Headers, InferenceRequest, InferenceResponse

from .messages import ModelStreamInferResponse
from .parameters import FINAL_RESPONSE as FINAL
from .parameters import WANTS_EMPTY_FINAL

AT_ONCE = 64
"""Maximum number of concurrent requests per stream. The next request is read when one finishes."""

_INFER_RESPONSE = b"\x12"
"""The protobuf key of `ModelStreamInferResponse.infer_response`."""


def _encode_final(final: bool) -> bytes:
    """Return the serialized response parameter that marks whether a response is the last one."""
    response = ModelInferResponse()
    response.parameters[FINAL].bool_param = final
    return response.SerializeToString()


_FINAL_IS = [_encode_final(False), _encode_final(True)]

_MISTAKEN = b"\xff: this is Triton's dialect; the metadata x-stream-dialect: mlserver asks for the other one"

NOT_MLSERVERS = b"\x1a" + StreamDialect.length(len(_MISTAKEN)) + _MISTAKEN
"""A field 3, which the Triton message does not define and which is `id` in the MLServer message.

It is not UTF-8, so a client that expects the MLServer message fails to parse the first response. Without it,
that client would read a response without outputs.
"""

ResponseTask = asyncio.Task[None]


_HINTS = ("sequence_id", "shared_memory_region", "classification")

_AGENTS = ("grpc-python", "grpc-c++")
"""User agents of Triton client libraries. The name of the program can precede them."""


class TritonDialect(StreamDialect):
    """The Triton streaming dialect, whose responses are ModelStreamInferResponse messages."""

    name = "triton"

    @staticmethod
    def is_certain(first: StreamRequest, metadata: Headers) -> bool:
        return "triton_grpc_error" in metadata or any(
            name.startswith("triton_") for name in first.message.parameters
        )

    @staticmethod
    def is_likely(first: StreamRequest, metadata: Headers) -> bool:
        message = first.message
        if message.raw_input_contents and _may_be_triton_client(metadata.get("user-agent", "")):
            return True
        parts = (message, *message.inputs, *message.outputs)
        return any(hint in part.parameters for part in parts for hint in _HINTS)

    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        await self.announce(exchange)  # Immediately, because nearly all failures are responses on the stream.
        chosen = self.header in caller.headers or self.is_certain(first, caller.headers)
        mark = b"" if chosen else NOT_MLSERVERS
        await TritonStream(self, self._dataplane, exchange, caller, mark).run(first)


def _may_be_triton_client(agent: str) -> bool:
    """Whether a user agent may belong to a Triton client.

    Stubs in other languages expect the response type that the `.proto` file declares.
    """
    return any(product.startswith(_AGENTS) for product in agent.split())


class TritonStream:
    """A stream of requests. Responses of models that do not stream are sent in request order."""

    def __init__(
        self,
        dialect: TritonDialect,
        dataplane: ServerModels,
        exchange: StreamExchange,
        caller: Caller,
        mark: bytes,
    ) -> None:
        """`mark` is appended to the first response."""
        self._dialect = dialect
        self._dataplane = dataplane
        self._exchange = exchange
        self._caller = caller
        self._mark = mark
        self._fatal = caller.headers.get("triton_grpc_error") == "true"
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._running: set[ResponseTask] = set()
        self._reading = CancelScope(asyncio.current_task())

    async def run(self, first: StreamRequest) -> None:
        """Serve all requests, until the client half-closes and all responses are sent.

        Raises InvalidRequest for an invalid message. The error of a response task is raised immediately, even
        while the client keeps its side open.
        """
        try:
            with self._reading:
                await self._read(first)
        except Exception:
            # If a write is cancelled, gRPC can no longer send a status.
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
            if request.admission is not None and request.admission.capabilities.streams:
                self._start(asyncio.create_task(self._stream(request, request.admission)))
            else:
                before = self._start(asyncio.create_task(self._predict(request, before)))
            following = await self._dialect.next_request(self._exchange, self._caller)
            if following is None:
                break
            request = following
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
            self._reading.end(failure)  # The reader may be waiting for a request that the client never sends.

    async def _predict(self, request: StreamRequest, before: ResponseTask | None) -> None:
        try:
            part = await self._respond(request)
        except Exception as error:
            part = self._refusal(request, error)
        if before is not None:
            # A wait inside the reply would occupy a slot that an earlier request may need.
            await asyncio.wait([before])
        await self._send(part)

    async def _respond(self, request: StreamRequest) -> bytes:
        admission = request.admitted()
        inputs, _ = self._parse(request)  # A single response is always the final one.
        async with await admission.open(Operation.INFER, inputs) as reply:
            assert reply.first is not None
            message = reply.first.accept(self._dialect.raw_writer)
            admission.count_response(len(message))
            return _encode_part(message, final=True)

    async def _stream(self, request: StreamRequest, admission: Admission) -> None:
        try:
            writer, usage = self._dialect.raw_stream_writer(), admission.usage
            inputs, empty_final = self._parse(request)
            marks, final = bool(admission.settings.configuration), False
            async with await admission.open(Operation.STREAM, inputs) as reply:
                async for response in reply:
                    final = marks and _is_final(response)
                    part = response.accept(writer)
                    if usage is not None:
                        usage.sent += len(part)
                    await self._send(_encode_part(part, final))
                    del response  # Frees the response while it is still in the CPU cache.
            if empty_final and not final:
                await self._send(_encode_part(_empty(request).SerializeToString(), final=True))
        except Exception as error:
            await self._send(self._refusal(request, error))

    def _parse(self, request: StreamRequest) -> tuple[InferenceRequest, bool]:
        """Parse a request, and return whether it expects an empty final response. Raises InvalidRequest."""
        try:
            inputs = request.parse()
            return inputs, _take_empty_final(inputs)
        except InferstreamError as error:
            self._dataplane.log_rejection(self._caller, "stream", request.message.model_name, error)
            raise

    async def _send(self, part: bytes) -> None:
        async with self._writing:
            if self._mark:
                part, self._mark = part + self._mark, b""
            await self._exchange.write(part)

    def _refusal(self, request: StreamRequest, error: Exception) -> bytes:
        """Convert an error to a response, which keeps the stream open.

        Raises the error instead if the client requested it.
        """
        if self._fatal:
            raise error
        text = self._dialect.message_of(error)
        response = _empty(request)
        response.parameters[FINAL].bool_param = True
        failure: bytes = ModelStreamInferResponse(
            error_message=text, infer_response=response
        ).SerializeToString()
        return failure


def _encode_part(response: bytes, final: bool) -> bytes:
    """Encode a response as a stream message.

    The final flag can be appended, because parameter entries can be anywhere.
    """
    body = response + _FINAL_IS[final]
    return _INFER_RESPONSE + StreamDialect.length(len(body)) + body


def _is_final(response: InferenceResponse) -> bool:
    """Whether model code for Triton has marked a response as the last one."""
    parameters = response.parameters
    return parameters is not None and parameters.get(FINAL) is True


def _empty(request: StreamRequest) -> ModelInferResponse:
    message = request.message
    return ModelInferResponse(
        model_name=message.model_name, model_version=message.model_version, id=message.id
    )


def _take_empty_final(request: InferenceRequest) -> bool:
    """Remove Triton parameters from a request, and return whether it expects an empty final response.

    Raises InvalidRequest for an unknown parameter.
    """
    parameters, wanted = request.parameters, False
    if parameters is None:
        return wanted
    extra = parameters.__pydantic_extra__ or {}
    for name in [name for name in extra if name.startswith("triton_")]:
        if name != WANTS_EMPTY_FINAL:
            raise InvalidRequest(f'parameter "{name}" is reserved')
        wanted = extra.pop(name) is True
        if not (extra or parameters.content_type):
            request.parameters = None
    return wanted
