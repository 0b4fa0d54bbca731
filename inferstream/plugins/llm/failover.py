"""Continues the streams of language models whose worker process is lost, in another one."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from inferstream import ModelSettings
from inferstream.errors import Abandoned, InferstreamError, WorkerLost, WorkerRestarting
from inferstream.ext.calls import Call, Handler, Reply, StageContext, StagedModel
from inferstream.ext.runtimes import Signature
from inferstream.ext.telemetry import get_logger
from inferstream.types import InferenceRequest, InferenceResponse, Parameters

from .failover_settings import FAILOVER_TIMEOUT, MAX_MOVES
from .sampling import WRITTEN

logger = get_logger("runtimes")

PAUSE = 0.1
"""Seconds between two attempts to find a worker."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The facet of a model whose streams can continue. `seconds` is the time to wait for a worker."""

    seconds: float


def find_continuation(signature: Signature, settings: ModelSettings) -> Continuation | None:
    seconds = signature.parameters.get(FAILOVER_TIMEOUT)
    return None if seconds is None else Continuation(float(seconds))


def add_failover(model: StagedModel, shared: StageContext) -> StagedModel:
    """Continue the streams of a model in workers, if its runtime can."""
    facet = model.facet(Continuation)
    if facet is None or not model.has_workers:
        return model
    return model.around(WorkerFailover(model.settings.name, model.handler, facet.seconds))


class WorkerFailover:
    """Calls a model again if its worker is lost."""

    def __init__(self, model: str, inner: Handler, seconds: float) -> None:
        self._model, self._inner, self._seconds = model, inner, seconds

    async def __call__(self, call: Call) -> Reply:
        if call.more is not None:
            return await self._inner(call)
        moves = 0
        try:
            reply = await self._inner(call)
        except WorkerRestarting:
            raise
        except WorkerLost as error:
            reply, moves = await self.call_again(call, 1, error)
        if reply.single or reply.first is None:
            return reply
        return Reply.stream(reply.first, ContinuedStream(self, call, reply, reply.first, moves))

    async def call_again(self, call: Call, moves: int, loss: WorkerLost) -> tuple[Reply, int]:
        """Return a reply from another worker, and the number of lost workers. Raises `loss` if none can reply."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds
        while moves <= MAX_MOVES:
            try:
                reply = await self._inner(call)
            except WorkerRestarting:
                if loop.time() >= until:
                    break
                await asyncio.sleep(PAUSE)
            except WorkerLost:
                moves += 1
            except InferstreamError as refusal:
                logger.info("model %s: a stream cannot continue: %s", self._model, refusal)
                break
            else:
                logger.info("model %s: a request continues in another worker", self._model)
                return reply, moves
        raise loss


class ContinuedStream:
    """The responses of a stream after the first, from several workers if necessary."""

    def __init__(
        self, failover: WorkerFailover, call: Call, reply: Reply, first: InferenceResponse, moves: int
    ) -> None:
        self._failover, self._call, self._reply, self._moves = failover, call, reply, moves
        self._request = call.request
        self._responses: Any = None
        """The responses of the current worker, once its stream is open."""
        self._has_first = True
        """Whether the reader already has the first response of the current worker."""
        self._written: list[int] = []
        self._known = True
        """Whether `_written` has the tokens of all responses."""
        self._complete = False
        self._count(first)

    async def __anext__(self) -> InferenceResponse:
        while True:
            try:
                if self._responses is None:
                    self._responses = aiter(await self._reply.__aenter__())
                    if self._has_first:
                        await self._responses.__anext__()
                response: InferenceResponse = await self._responses.__anext__()
            except WorkerLost as error:
                await self._move(error)
            else:
                self._count(response)
                return response

    async def _move(self, loss: WorkerLost) -> None:
        """Continue in another worker. Raises `loss` if that is impossible, or StopAsyncIteration."""
        if self._complete:
            raise StopAsyncIteration
        if not self._known or self._moves >= MAX_MOVES:
            raise loss
        self._responses, self._has_first = None, False
        self._call.request = _add_written(self._request, self._written)
        self._reply, self._moves = await self._failover.call_again(self._call, self._moves + 1, loss)

    def _count(self, response: InferenceResponse) -> None:
        facts: Mapping[str, Any] = (response.parameters and response.parameters.model_extra) or {}
        token = facts.get("token_id")
        if isinstance(token, int):
            self._written.append(token)
        else:
            self._known = False
        self._complete = "finish_reason" in facts

    async def aclose(self) -> None:
        await self._reply.aclose(Abandoned())


def _add_written(request: InferenceRequest, written: list[int]) -> InferenceRequest:
    """Return a copy of a request with the tokens so far, after those that the client has sent."""
    given = request.parameters or Parameters.of()
    earlier = given.get(WRITTEN, [])
    tokens = [*(orjson.loads(earlier) if isinstance(earlier, str) else earlier), *written]
    extra = {**(given.model_extra or {}), WRITTEN: str(tokens)}
    return request.model_copy(update={"parameters": Parameters.of(extra, given.content_type, given.headers)})
