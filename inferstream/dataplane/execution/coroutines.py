"""Runs a model's coroutines in the event loop of the model's own thread, or on the server's."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from time import perf_counter
from types import CodeType, coroutine
from typing import Any

from ...concurrency.model_task import needs_task, run_as_task, steps_of
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
"""Seconds of a call that is worth less than the way to its thread."""

HEAVY = 0.001
"""Seconds of a call, or of a stretch between two awaits, that others notice while they wait behind it."""

LIGHT_ENOUGH = 8
"""Light calls in a row after which several calls cross at once."""

CROSSING = 64
"""Light calls that may cross to the thread at once: what comes behind them waits for a few milliseconds at most."""

WATCHED = 32
"""Calls, and streams, of a model on the server's loop that are timed."""

WATCHED_ITEMS = 4
"""Timed items of such a stream."""

OFFENCES = 3
"""Long stretches before the log says so; the machine may cause a single one."""

LONG = 0.5
"""Seconds of a single stretch that are worth a warning, whatever the machine does meanwhile."""


class InThread:
    """Runs coroutines in the event loop of the model's own thread.

    Calls begin in turn. One that has not begun holds its slot, so the queue in front orders the calls behind it, and a
    batch grows there. `slots` is therefore 1 until a call has awaited; from then on it is `most`. Calls that do not
    await and are light cross together, at most `CROSSING`.
    """

    def __init__(self, model: MLModel, thread: ModelThread, slots: Slots | None, most: int) -> None:
        """`slots` is None if their number is fixed."""
        self._model = model
        self._thread = thread
        self._slots = slots
        self._most = most
        self._light = 0
        """Light calls in a row."""
        self._ran: Callable[[float | None], None] | None = None if slots is None else self._look

    def predict(self, request: InferenceRequest) -> Awaitable[Any]:
        return self._thread.call(self._model.predict, request, request=request_context(), ran=self._ran)

    def _look(self, seconds: float | None) -> None:
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
    """Runs coroutines on the server's event loop. The first ones are timed, and the log names a model that holds it."""

    def __init__(self, model: MLModel) -> None:
        self._model = model
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = self._streams = WATCHED
        self._timed = self._offences = 0
        self._longest = 0.0
        self._taskless: object = self
        """The code of a coroutine that runs without a task."""
        self._warned = False
        self.predict: Callable[[InferenceRequest], Awaitable[Any]] = self._watching

    def _watching(self, request: InferenceRequest) -> Awaitable[Any]:
        self._calls -= 1
        awaitable = self._model.predict(request)
        if not self._calls:
            self.predict, self._loop = self._predict, asyncio.get_running_loop()
            code = getattr(awaitable, "cr_code", None)
            if code is not None and not needs_task(code):
                self._taskless = code
                if _code_of(self._model) is code:
                    self.predict = self._model.predict
        return run_as_task(self.watch(awaitable))

    def _predict(self, request: InferenceRequest) -> Awaitable[Any]:
        awaitable: Awaitable[Any] = self._model.predict(request)
        if getattr(awaitable, "cr_code", None) is self._taskless:
            return awaitable
        return run_as_task(awaitable, self._loop)

    def watch(self, awaitable: Awaitable[Any]) -> Awaitable[Any]:
        self._timed += 1
        return _timed(awaitable, self._ran)

    def _ran(self, seconds: float) -> None:
        if seconds < HEAVY or self._warned:
            return
        self._offences += 1
        self._longest = max(self._longest, seconds)
        if seconds < LONG and self._offences < max(OFFENCES, self._timed / 2):
            return
        self._warned = True
        logger.warning(
            "model %s: its code blocks: it held the server's event loop for %.0f ms. Write what blocks as `def`, "
            "call it with asyncio.to_thread, or set loop to own.",
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


def _code_of(model: MLModel) -> CodeType | None:
    """The code of all coroutines that `predict` returns; None if there may be others."""
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
def _timed(awaitable: Awaitable[Any], ran: Callable[[float], None]) -> Generator[Any, Any, Any]:
    """Await `awaitable`, and tell `ran` the seconds of each stretch between two awaits."""
    steps = steps_of(awaitable)
    thrown: list[BaseException] = []  # emptied at once: an error in a local of this frame would be a cycle
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
        except BaseException as error:  # the model gets every one
            thrown.append(error)
