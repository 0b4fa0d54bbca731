"""Shadow calls: copies of calls to another version of the model. Responses are compared and discarded."""

import asyncio
from collections.abc import Awaitable
from copy import deepcopy
from math import prod
from random import random

from inferstream.errors import InferstreamError, InvalidSettings
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
from inferstream.types import InferenceRequest, InferenceResponse

from .comparison import describe_difference
from .meters import ShadowMeters
from .settings import Shadow, VersionSettings
from .shadows import Shadows, build_shadows

logger = get_logger("dataplane")

PRINCIPAL = "\0shadow"
"""The principal that all copies are charged to. No API key can have this name."""

DIALECT = "shadow"
"""The dialect of copies, and of calls that model code makes in a copy. Such calls are not copied."""

MAX_RESPONSES = 1024
"""Maximum number of stream responses to compare. Longer streams are not compared."""

LARGE = 4096
"""Elements above which a request is copied in a thread. Copying a Python object takes 0.25 µs."""

MAX_LOGGED = 10
"""Maximum number of differences to log per model load. The metrics count all of them."""


class CopyMark(CallValue[bool]):
    """Marks copies of calls, and the calls that model code makes in a copy."""

    def set(self, call: Call, value: bool) -> None:
        super().set(call, value)
        call.dialect = DIALECT

    def inherit(self, value: bool, call: Call) -> bool:
        return value


COPY = CopyMark("shadow")


class ShadowStage:
    """Sends copies of calls to the version `shadow.to`. A copy starts after the original call has ended.

    Failed calls and bidirectional streams are not copied.
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
        return self._call_with_shadow(call)

    async def _call_with_shadow(self, call: Call) -> Reply:
        if not self.shadows.reserve():
            self._meters.dropped += 1
            return await self._inner(call)
        try:
            request = await _copy_request(call.request)
            reply = await self._inner(call)
        except BaseException:  # This includes cancellation.
            self.shadows.release()
            raise
        return reply.watch(Expected(self, call, request))

    def begin(self, call: Call, request: InferenceRequest, expected: list[InferenceResponse]) -> None:
        """Start the copy of a successful call."""
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
                    if len(responses) <= MAX_RESPONSES:
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
        if tolerance is None or len(expected) > MAX_RESPONSES:
            self._meters.unchecked += 1
            return
        why = await asyncio.to_thread(describe_difference, expected, responses, tolerance)
        if why is None:
            self._meters.equal += 1
        else:
            self._meters.different += 1
            self._log(copy, why)

    def _log(self, copy: Call, why: str) -> None:
        if self._logged < MAX_LOGGED:
            self._logged += 1
            name, version, id = copy.model, self._shadow.to, copy.request.id
            logger.warning("shadow %s of model %s, request %s: %s", version, name, id, why)


class Expected(Watcher):
    """Collects the responses of a call for the comparison with its copy."""

    __slots__ = ("_call", "_request", "_responses", "_stage")

    def __init__(self, stage: ShadowStage, call: Call, request: InferenceRequest) -> None:
        self._stage = stage
        self._call = call
        self._request = request
        self._responses: list[InferenceResponse] = []

    def item(self, response: InferenceResponse) -> None:
        if len(self._responses) <= MAX_RESPONSES:
            self._responses.append(response)

    def end(self, error: BaseException | None) -> None:
        if error is None:
            self._stage.begin(self._call, self._request, self._responses)
        else:
            self._stage.shadows.release()


async def _copy_request(request: InferenceRequest) -> InferenceRequest:
    """Copy a request, because model code can modify it."""
    if request.form is None and sum(prod(tensor.shape) for tensor in request.inputs) > LARGE:
        return await asyncio.to_thread(deepcopy, request)
    return deepcopy(request)


def copy_calls(model: StagedModel, shared: StageContext) -> StagedModel:
    """Copy calls to the shadow version, if the model's settings name one.

    Raises InvalidSettings if the shadow is the version of the model itself.
    """
    shadow = model.settings.section(VersionSettings).shadow
    if shadow is None or (shadows := shared.of(build_shadows)) is None:
        return model
    if shadow.to == model.settings.version:
        raise InvalidSettings(f"shadow.to is {shadow.to}, the version of the model itself")
    stage = ShadowStage(model.handler, shadow, shadows, model.meters.of(ShadowMeters), shared.turns)
    return model.around(stage)
