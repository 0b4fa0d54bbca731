"""ModelStreamInfer as Triton's clients speak it: many independent requests, answers and errors in band."""

import asyncio
from typing import Any

from ...dataplane.admission import Admission
from ...dataplane.call import Call, Operation
from ...dataplane.dataplane import DataPlane
from ...errors import InferstreamError, InvalidRequest
from ...protos.grpc import request_from
from ...protos.grpc_responses import dump_response, length
from ...protos.messages import InferParameter, ModelInferResponse, ModelStreamInferResponse
from ...types import Headers
from ..status import Profile
from .context import deadline_of, priority_of
from .rpc import RpcExchange, outcome

AT_ONCE = 64
"""Requests of one stream that may run together; the next is read when one has ended."""

FINAL = "triton_final_response"
WANTS_EMPTY_FINAL = "triton_enable_empty_final_response"

_INFER_RESPONSE = b"\x12"
"""Key of ModelStreamInferResponse's `infer_response`."""

_FINAL_IS = [
    # A map takes dicts from protobuf 6 on.
    ModelInferResponse(parameters={FINAL: InferParameter(bool_param=final)}).SerializeToString()
    for final in (False, True)
]

ResponseTask = asyncio.Task[None]


def admission_of(dataplane: DataPlane, message: Any) -> Admission | InferstreamError:
    """Admission to the model that a message names, or why there is none: the dialect says how that is sent."""
    try:
        return dataplane.admit(message.model_name, message.model_version or None)
    except InferstreamError as refusal:
        return refusal


class TritonStream:
    """One stream. Answers and errors of models that only predict come in the order of their requests."""

    def __init__(
        self, dataplane: DataPlane, profile: Profile, exchange: RpcExchange, metadata: Headers
    ) -> None:
        self._dataplane = dataplane
        self._profile = profile
        self._exchange = exchange
        self._metadata = metadata
        self._priority = priority_of(metadata)
        self._fatal = metadata.get("triton_grpc_error") == "true"
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._running: set[ResponseTask] = set()
        self._reader: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None

    async def run(self, message: Any, admission: Admission | InferstreamError) -> None:
        """Answer `message`, to whose model `admission` leads, and every later request.

        Ends when the client has half-closed and all is answered.

        Raises InvalidRequest for a message that is none, and what an answering task raises: at once, however
        long the client keeps its side open.
        """
        try:
            await self._read(message, admission)
            if self._failure is not None:
                # Cancelling a write would leave it to the library half done, and no status can follow that.
                await self._writing.acquire()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def _read(self, message: Any, known: Admission | InferstreamError | None) -> None:
        self._reader = asyncio.current_task()
        before: ResponseTask | None = None
        try:
            while message is not None:
                await self._slots.acquire()
                admission = known or admission_of(self._dataplane, message)
                if isinstance(admission, Admission) and admission.streams:
                    self._start(asyncio.create_task(self._stream(message, admission)))
                else:
                    before = self._start(asyncio.create_task(self._predict(message, admission, before)))
                message, known = await self._exchange.read(), None
            if self._running:
                await asyncio.wait(self._running)
        except asyncio.CancelledError:
            if self._failure is None:
                raise
        except InvalidRequest as error:
            self._failure = error
        finally:
            self._reader = None

    def _start(self, task: ResponseTask) -> ResponseTask:
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: ResponseTask) -> None:
        self._running.discard(task)
        self._slots.release()
        failure = None if task.cancelled() else task.exception()
        if failure is not None and self._failure is None and self._reader is not None:
            self._failure = failure
            self._reader.cancel()  # it may be waiting for a request that never comes

    async def _predict(
        self, message: Any, admission: Admission | InferstreamError, before: ResponseTask | None
    ) -> None:
        try:
            message_part = await self._respond(message, admission)
        except Exception as error:
            message_part = self._refusal(message, error)
        if before is not None:
            # Waiting here, and not inside the reply, keeps no slot of a model from those who come before.
            await asyncio.wait([before])
        await self._send(message_part)

    async def _respond(self, message: Any, admission: Admission | InferstreamError) -> bytes:
        _take_empty_final(message)  # a single answer is its own final one
        if not isinstance(admission, Admission):
            raise admission
        async with await admission.open(self._call(admission, message, Operation.INFER)) as reply:
            assert reply.first is not None
            return _part(dump_response(reply.first, typed=False), final=True)

    async def _stream(self, message: Any, admission: Admission) -> None:
        try:
            empty_final = _take_empty_final(message)
            async with await admission.open(self._call(admission, message, Operation.STREAM)) as reply:
                async for response in reply:
                    await self._send(_part(dump_response(response, typed=False), final=False))
            if empty_final:
                await self._send(_part(_empty(message).SerializeToString(), final=True))
        except Exception as error:
            await self._send(self._refusal(message, error))

    def _call(self, admission: Admission, message: Any, operation: Operation) -> Call:
        return admission.call(
            operation,
            request_from(message),
            self._metadata,
            deadline=deadline_of(self._exchange.context),
            priority=self._priority,
        )

    async def _send(self, part: bytes) -> None:
        async with self._writing:
            await self._exchange.write(part)

    def _refusal(self, message: Any, error: Exception) -> bytes:
        """An error in band, so that the other requests of the stream go on. Raises it if the client asked so."""
        if self._fatal:
            raise error
        _, text = outcome(error, self._profile)
        response = _empty(message)
        response.parameters[FINAL].bool_param = True
        failure = ModelStreamInferResponse(error_message=text, infer_response=response)
        return bytes(failure.SerializeToString())


def _part(response: bytes, final: bool) -> bytes:
    """A response as one of the stream's; an entry of its parameters may stand anywhere in its message."""
    body = response + _FINAL_IS[final]
    part: bytes = _INFER_RESPONSE + length(len(body)) + body
    return part


def _empty(message: Any) -> Any:
    return ModelInferResponse(
        model_name=message.model_name, model_version=message.model_version, id=message.id
    )


def _take_empty_final(message: Any) -> bool:
    """Whether an empty final response is wanted; takes Triton's own parameters out of the request.

    Raises InvalidRequest for one that is not known.
    """
    wanted = False
    for name in [name for name in message.parameters if name.startswith("triton_")]:
        if name != WANTS_EMPTY_FINAL:
            raise InvalidRequest(f'parameter "{name}" is reserved')
        wanted = message.parameters[name].bool_param
        del message.parameters[name]
    return wanted
