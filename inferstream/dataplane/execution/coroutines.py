"""Runs a model's coroutines, on the server's event loop or on the event loop of a separate thread."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from time import perf_counter
from types import CodeType, coroutine
from typing import Any

from ...concurrency.model_task import iterate_awaitable, needs_task, run_as_task
from ...concurrency.model_thread import ModelThread
from ...context import request_context
from ...functions.model import FunctionModel
from ...model import MLModel
from ...types import InferenceRequest, InferenceResponse
from ..call import Call
from ..slots import Slots
from .stream_task import StreamTask, as_task
from .threads import ModelThreadResponses

logger = logging.getLogger("inferstream.model")

LIGHT = 0.0003
"""Duration of a call, in seconds, below which switching threads costs more than the call."""

HEAVY = 0.001
"""Duration of a call or uninterrupted section, in seconds, above which it noticeably delays other calls."""

LIGHT_ENOUGH = 8
"""Number of consecutive light calls before several calls are sent to the thread at once."""

CROSSING = 64
"""Maximum number of light calls in the thread at once, so that they delay others by a few ms at most."""

WATCHED = 32
"""Number of calls, and of streams, that are timed for a model on the server's event loop."""

WATCHED_ITEMS = 4
"""Number of items that are timed in such a stream."""

OFFENCES = 3
"""Number of long sections before a warning, because the operating system can cause a single one."""

LONG = 0.5
"""Duration of a single section, in seconds, that causes a warning immediately."""


class InThread:
    """Runs coroutines on the event loop of the model's thread.

    Calls start in order. A call that has not started occupies its slot, so calls behind it remain in the
    queue, which applies priorities and batching. `slots` therefore starts at 1, and rises to `most` once a
    call has awaited something. If calls never await and are light, up to `CROSSING` of them are sent to the
    thread together.
    """

    def __init__(self, model: MLModel, thread: ModelThread, slots: Slots | None, most: int) -> None:
        """`slots` is None if the number of slots is fixed."""
        self._model = model
        self._thread = thread
        self._slots = slots
        self._most = most
        self._light = 0
        """Number of consecutive light calls."""
        self._ran: Callable[[float | None], None] | None = None if slots is None else self._adjust_slots

    def predict(self, request: InferenceRequest) -> Awaitable[Any]:
        return self._thread.call(self._model.predict, request, request=request_context(), ran=self._ran)

    def _adjust_slots(self, seconds: float | None) -> None:
        slots = self._slots
        assert slots is not None
        if seconds is None:
            self._ran = None
            slots.resize(self._most)
        elif self._ran is None:
            return
        elif seconds > HEAVY:
            self._light = 0
            slots.resize(1)
        elif seconds < LIGHT and self._light < LIGHT_ENOUGH:
            self._light += 1
            if self._light == LIGHT_ENOUGH:
                slots.resize(min(CROSSING, self._most))

    def stream(self, start: Callable[[], Any], call: Call) -> ModelThreadResponses:
        return ModelThreadResponses(self._thread, start, call)


class OnLoop:
    """Runs coroutines on the server's event loop. Times the first ones, and warns about blocking code."""

    def __init__(self, model: MLModel) -> None:
        self._model = model
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = self._streams = WATCHED
        self._timed = self._offences = 0
        self._longest = 0.0
        self._taskless: object = self
        """The code object of coroutines that run without a task."""
        self._warned = False
        self.predict: Callable[[InferenceRequest], Awaitable[Any]] = self._watch_prediction

    def _watch_prediction(self, request: InferenceRequest) -> Awaitable[Any]:
        self._calls -= 1
        awaitable = self._model.predict(request)
        if not self._calls:
            self.predict, self._loop = self._predict, asyncio.get_running_loop()
            code = getattr(awaitable, "cr_code", None)
            if code is not None and not needs_task(code):
                self._taskless = code
                if _coroutine_code(self._model) is code:
                    self.predict = self._model.predict
        return run_as_task(self.watch(awaitable))

    def _predict(self, request: InferenceRequest) -> Awaitable[Any]:
        awaitable: Awaitable[Any] = self._model.predict(request)
        if getattr(awaitable, "cr_code", None) is self._taskless:
            return awaitable
        return run_as_task(awaitable, self._loop)

    def watch(self, awaitable: Awaitable[Any]) -> Awaitable[Any]:
        self._timed += 1
        return _measure(awaitable, self._check_duration)

    def _check_duration(self, seconds: float) -> None:
        if seconds < HEAVY or self._warned:
            return
        self._offences += 1
        self._longest = max(self._longest, seconds)
        if seconds < LONG and self._offences < max(OFFENCES, self._timed / 2):
            return
        self._warned = True
        logger.warning(
            "model %s: blocking code held the server's event loop for %.0f ms; write it as `def`, "
            "call it with asyncio.to_thread, or set loop to own",
            self._model.name,
            self._longest * 1e3,
        )

    def stream(self, start: Callable[[], Any], call: Call) -> Any:
        responses = start()
        if not isinstance(responses, AsyncGenerator):
            return responses
        if not self._streams:
            return as_task(responses)
        self._streams -= 1
        return _WatchedResponses(as_task(responses), self)


def _coroutine_code(model: MLModel) -> CodeType | None:
    """Return the code object that all coroutines of `predict` share, or None if they may differ."""
    predict: Any = model.predict
    if isinstance(model, FunctionModel):
        predict = getattr(predict, "__wrapped__", None)
    return getattr(predict, "__code__", None)


class _WatchedResponses(AsyncIterator[InferenceResponse]):
    """An async generator whose first items are timed."""

    def __init__(self, responses: AsyncGenerator[InferenceResponse] | StreamTask, on_loop: OnLoop) -> None:
        self._responses = responses
        self._on_loop = on_loop
        self._left = WATCHED_ITEMS

    def __anext__(self) -> Awaitable[InferenceResponse]:
        if not self._left:
            return self._responses.__anext__()
        self._left -= 1
        return self._on_loop.watch(self._responses.__anext__())

    async def aclose(self) -> None:
        await self._responses.aclose()


@coroutine
def _measure(awaitable: Awaitable[Any], ran: Callable[[float], None]) -> Generator[Any, Any, Any]:
    """Await `awaitable`, and pass the duration of each section between two awaits to `ran`, in seconds."""
    steps = iterate_awaitable(awaitable)
    thrown: list[BaseException] = []  # A local variable with the error would cause a cycle.
    while True:
        started = perf_counter()
        try:
            waits_for = steps.throw(thrown.pop()) if thrown else next(steps)
        except StopIteration as end:
            return end.value
        finally:
            ran(perf_counter() - started)
        try:
            yield waits_for
        except BaseException as error:  # The model receives every error.
            thrown.append(error)
