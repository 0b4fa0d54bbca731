"""ModelStreamInfer as Triton's clients speak it: many independent requests, answers and errors in band."""

import asyncio
import logging
from typing import Any

from grpc.aio import EOF  # type: ignore[attr-defined]  # missing from the stubs

from ...dataplane.call import Call, Operation
from ...dataplane.dataplane import DataPlane
from ...errors import InferstreamError, InvalidRequest
from ...protos.grpc import request_from
from ...protos.grpc_responses import dump_response, length
from ...protos.messages import ModelInferResponse, ModelStreamInferResponse
from ...types import Headers
from ..status import Profile, grpc_status
from .context import deadline_of, fail, parse

logger = logging.getLogger("inferstream.grpc")

AT_ONCE = 64
"""Requests of one stream that may run together; the next is read when one has ended."""

FINAL = "triton_final_response"
WANTS_EMPTY_FINAL = "triton_enable_empty_final_response"

_INFER_RESPONSE = b"\x12"
"""Key of ModelStreamInferResponse's `infer_response`."""

_FINAL_IS = [
    ModelInferResponse(parameters={FINAL: {"bool_param": final}}).SerializeToString()
    for final in (False, True)
]


class TritonStream:
    """One stream. Answers of models that only predict come in the order of their requests."""

    def __init__(self, dataplane: DataPlane, profile: Profile, context: Any, metadata: Headers) -> None:
        self._dataplane = dataplane
        self._profile = profile
        self._context = context
        self._metadata = metadata
        self._fatal = metadata.get("triton_grpc_error") == "true"
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._before: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def run(self, message: Any) -> None:
        """Answer `message` and every later request; ends when the client has half-closed and all is answered."""
        tasks: set[asyncio.Task[None]] = set()
        try:
            while self._failure is None:
                await self._slots.acquire()
                tasks.add(task := asyncio.create_task(self._answer(message, self._before)))
                task.add_done_callback(tasks.discard)
                task.add_done_callback(lambda _: self._slots.release())
                if not self._dataplane.streams(message.model_name, message.model_version or None):
                    self._before = task
                data = await self._context.read()
                if data is EOF:
                    break
                message = parse(data)
            while tasks and self._failure is None:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._failure is not None:
            await fail(self._context, self._failure, self._profile)

    async def _answer(self, message: Any, before: asyncio.Task[None] | None) -> None:
        try:
            empty_final = _reserved(message)
            request = request_from(message)
            version = message.model_version or None
            call = Call(
                Operation.STREAM,
                message.model_name,
                version,
                request,
                self._metadata,
                deadline=deadline_of(self._context),
            )
            single = not self._dataplane.streams(message.model_name, version)
            async with await self._dataplane.open(call) as reply:
                if single and before is not None:
                    await asyncio.wait([before])
                async for response in reply:
                    await self._write(dump_response(response, typed=False), final=single)
                if empty_final and not single:
                    await self._write(_empty(message).SerializeToString(), final=True)
        except Exception as error:
            await self._fail(message, error)

    async def _write(self, response: bytes, final: bool) -> None:
        body = response + _FINAL_IS[final]  # an entry of a map may stand anywhere in its message
        await self._send(_INFER_RESPONSE + length(len(body)) + body)

    async def _send(self, data: bytes) -> None:
        async with self._writing:
            await self._context.write(data)

    async def _fail(self, message: Any, error: Exception) -> None:
        """An error in band, so that the other requests of the stream go on; or the end, if the client asked so."""
        if self._fatal:
            self._failure = error
            return
        if not isinstance(error, InferstreamError):
            logger.error("a gRPC call failed", exc_info=error)
        _, text = grpc_status(error, self._profile)
        response = _empty(message)
        response.parameters[FINAL].bool_param = True
        failure = ModelStreamInferResponse(error_message=text, infer_response=response)
        await self._send(failure.SerializeToString())


def _empty(message: Any) -> Any:
    return ModelInferResponse(
        model_name=message.model_name, model_version=message.model_version, id=message.id
    )


def _reserved(message: Any) -> bool:
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
