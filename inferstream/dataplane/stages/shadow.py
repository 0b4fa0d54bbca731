"""Copies of calls for another version of the model, whose responses are compared and then dropped."""

import asyncio
from collections.abc import Awaitable
from copy import deepcopy
from math import prod
from random import random

from inferstream.ext.calls import (
    Call,
    CallValue,
    Handler,
    NotLoaded,
    Reply,
    StageContext,
    StagedModel,
    Turns,
    Watcher,
    count_tokens,
)
from inferstream.ext.telemetry import get_logger
from inferstream.plugins.traffic.comparison import difference
from inferstream.plugins.traffic.meters import ShadowMeters

from ...errors import InferstreamError, InvalidSettings
from ...settings.traffic import Shadow, VersionSettings
from ...types import InferenceRequest, InferenceResponse
from ..shadows import Shadows, build_shadows

logger = get_logger("dataplane")

PRINCIPAL = "\0shadow"
"""What all copies are charged to. No key has such a name."""

DIALECT = "shadow"
"""The dialect of copies of calls, and of the calls by model code in them. They have no copies of their own."""

MOST = 1024
"""Responses of a stream that are kept for the comparison. Longer ones are not compared."""

LARGE = 4096
"""Elements of a request above which a thread copies it. Each Python object of a list takes 0.25 µs."""

MOST_LOGGED = 10
"""Differences of one load of a model in the log. The meter counts all."""


class CopyMark(CallValue[bool]):
    """Marks copies of calls, and the calls that model code makes in them."""

    def set(self, call: Call, value: bool) -> None:
        super().set(call, value)
        call.dialect = DIALECT

    def inherit(self, value: bool, call: Call) -> bool:
        return value


COPY = CopyMark("shadow")


class ShadowStage:
    """Gives copies of calls to `version`. A call never waits for its copy, which begins when the call has ended.

    Calls that fail and bidirectional streams have none.
    """

    def __init__(
        self,
        inner: Handler,
        shadow: Shadow,
        shadows: Shadows,
        meters: ShadowMeters,
        turns: type[Turns] | None = None,
    ) -> None:
        self._inner = inner
        self._shadow = shadow
        self._share = shadow.percent / 100
        self.shadows = shadows
        self._meters = meters
        self._turns = turns
        self._logged = 0

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if call.more is not None or call.dialect == DIALECT or random() >= self._share:
            return self._inner(call)
        return self._copied(call)

    async def _copied(self, call: Call) -> Reply:
        if not self.shadows.reserve():
            self._meters.dropped += 1
            return await self._inner(call)
        try:
            request = await _own(call.request)
            reply = await self._inner(call)
        except BaseException:  # a cancelled call too
            self.shadows.release()
            raise
        return reply.watch(Expected(self, call, request))

    def begin(self, call: Call, request: InferenceRequest, expected: list[InferenceResponse]) -> None:
        """Begin the copy of a call that has succeeded."""
        copy = Call(call.operation, call.model, self._shadow.to, request, call.headers)
        copy.priority, copy.principal = call.priority, call.principal
        COPY.set(copy, True)
        if self._turns is not None:
            self._turns.charge(copy, PRINCIPAL)
        self.shadows.start(copy, self._run(copy, expected))

    async def _run(self, copy: Call, expected: list[InferenceResponse]) -> None:
        responses: list[InferenceResponse] = []
        items, last = 0, None
        try:
            async with await self.shadows.find(copy.model, self._shadow.to)(copy) as reply:
                async for response in reply:
                    items, last = items + 1, response.parameters
                    if len(responses) <= MOST:
                        responses.append(response)
            await self._compare(copy, expected, responses)
        except InferstreamError as error:
            self._meters.failed += 1
            self._log(copy, f"it failed: {error}")
        except NotLoaded:
            self._meters.failed += 1
            self._log(copy, "it is not loaded, and copies load nothing")
        finally:
            copy.end_values(count_tokens(last, items))

    async def _compare(
        self, copy: Call, expected: list[InferenceResponse], responses: list[InferenceResponse]
    ) -> None:
        tolerance = self._shadow.compare
        if tolerance is None or len(expected) > MOST:
            self._meters.unchecked += 1
            return
        why = await asyncio.to_thread(difference, expected, responses, tolerance)
        if why is None:
            self._meters.equal += 1
        else:
            self._meters.different += 1
            self._log(copy, why)

    def _log(self, copy: Call, why: str) -> None:
        if self._logged < MOST_LOGGED:
            self._logged += 1
            name, version, id = copy.model, self._shadow.to, copy.request.id
            logger.warning("shadow %s of model %s, request %s: %s", version, name, id, why)


class Expected(Watcher):
    """Keeps the responses of a call for its copy."""

    __slots__ = ("_call", "_request", "_responses", "_stage")

    def __init__(self, stage: ShadowStage, call: Call, request: InferenceRequest) -> None:
        self._stage = stage
        self._call = call
        self._request = request
        self._responses: list[InferenceResponse] = []

    def item(self, response: InferenceResponse) -> None:
        if len(self._responses) <= MOST:
            self._responses.append(response)

    def end(self, error: BaseException | None) -> None:
        if error is None:
            self._stage.begin(self._call, self._request, self._responses)
        else:
            self._stage.shadows.release()


async def _own(request: InferenceRequest) -> InferenceRequest:
    """A request that model code may change without changing the other one."""
    if request.form is None and sum(prod(tensor.shape) for tensor in request.inputs) > LARGE:
        return await asyncio.to_thread(deepcopy, request)
    return deepcopy(request)


def shadowing(model: StagedModel, shared: StageContext) -> StagedModel:
    """Off unless the model's settings name a shadow. Raises InvalidSettings for one that is the model itself."""
    shadow = model.settings.section(VersionSettings).shadow
    if shadow is None or (shadows := shared.of(build_shadows)) is None:
        return model
    if shadow.to == model.settings.version:
        raise InvalidSettings(f"shadow.to is {shadow.to}, the version of the model itself")
    stage = ShadowStage(model.handler, shadow, shadows, model.meters.of(ShadowMeters), shared.turns)
    return model.around(stage)
