"""Runs a model's coroutines on the server's event loop or in the model's own thread."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from ...concurrency.model_thread import ModelThread
from ...context import request_context
from ...model import MLModel
from ...types import InferenceRequest, InferenceResponse
from .stretches import Hold, NoHold, Turns, in_stretches
from .threads import LIGHT, ModelThreadResponses

logger = logging.getLogger("inferstream.model")

HEAVY = 0.001
"""Seconds that a coroutine may hold the server's event loop."""

LONG = 0.5
"""Seconds of a single stretch that are worth a warning, whatever the machine does meanwhile."""

WATCHED = 32
"""Calls, and streams, of a model that are watched for stretches that hold the loop."""

WATCHED_ITEMS = 4
"""Watched items of such a stream."""

OFFENCES = 3
"""Long stretches before the server acts; the machine may cause a single one."""

IN_A_ROW = 5
"""Consecutive long stretches before a model leaves the loop. Another thread or process may cause single ones."""

ResponseIterator = AsyncIterator[InferenceResponse]


class OnLoop:
    """Runs coroutines that may await on the server's event loop.

    A coroutine that also blocks must stay, because its futures belong to this loop. So the first calls are watched.
    A warning names a blocking model once, and then the loop turns between its stretches. `hold` learns of the stretches
    that are watched or delayed.
    """

    def __init__(self, model: MLModel, hold: Hold | None = None) -> None:
        self._model = model
        self._hold = hold or NoHold()
        self.turns: Turns | None = None
        """Delays the stretches of a model that blocks."""
        self._calls = self._streams = WATCHED
        self._watched = self._offences = 0
        self._longest = 0.0
        self._warned = False
        self.predict: Callable[[InferenceRequest], Awaitable[Any]] = self._watching

    def _watching(self, request: InferenceRequest) -> Awaitable[Any]:
        self._calls -= 1
        if not self._calls and self.turns is None:
            self.predict = self._model.predict
        return self.watch(self._model.predict(request))

    def _in_turns(self, request: InferenceRequest) -> Awaitable[Any]:
        assert self.turns is not None
        return in_stretches(self._model.predict(request), self.turns)

    def watch(self, awaitable: Awaitable[Any]) -> Awaitable[Any]:
        self._watched += 1
        return in_stretches(awaitable, self)

    def turn(self) -> None:
        """Never delay a stretch."""

    def began(self) -> None:
        self._hold.began()

    def ended(self, seconds: float) -> None:
        self._hold.ended()
        if seconds < HEAVY or self.turns is not None:
            return
        self._offences += 1
        self._longest = max(self._longest, seconds)
        if self._offences >= max(OFFENCES, self._watched / 2):
            self.turns = Turns(self._hold)
            self.predict = self._in_turns
            self._warn()
        elif seconds >= LONG:
            self._warn()

    def _warn(self) -> None:
        if self._warned:
            return
        self._warned = True
        logger.warning(
            "model %s: its code awaits and also blocks: it held the event loop for %.0f ms. Write what "
            "blocks as `def`, call it with asyncio.to_thread, or set parallel_workers.",
            self._model.name,
            self._longest * 1e3,
        )

    def stream(self, start: Callable[[], Any]) -> Any:
        """An iterator for the stream that `start` makes; `start` may also return an awaitable of it."""
        responses = start()
        if not isinstance(responses, AsyncGenerator):
            return responses
        if self.turns is None:
            if not self._streams:
                return responses
            self._streams -= 1
        return DrivenResponses(responses, self)


class DrivenResponses(AsyncIterator[InferenceResponse]):
    """An async generator. Its first items are watched; all are driven in turns if its model blocks."""

    def __init__(self, responses: AsyncGenerator[InferenceResponse], on_loop: OnLoop) -> None:
        self._responses = responses
        self._on_loop = on_loop
        self._left = WATCHED_ITEMS

    def __anext__(self) -> Awaitable[InferenceResponse]:
        turns = self._on_loop.turns
        if turns is not None:
            return in_stretches(self._responses.__anext__(), turns)
        if not self._left:
            return self._responses.__anext__()
        self._left -= 1
        return self._on_loop.watch(self._responses.__anext__())

    async def aclose(self) -> None:
        await self._responses.aclose()


class InThread:
    """Runs coroutines that never suspend in threads of their model, one at a time.

    `threads` holds the threads in which the model was loaded. A model without any has no state, so its coroutines may
    run on the server's event loop, which is cheaper. They move there when they have been light enough, and move back
    when one holds the loop. During a move, calls may run in both places. Threads are made on demand.
    """

    def __init__(self, model: MLModel, threads: list[ModelThread]) -> None:
        self._model = model
        self._threads = threads
        self._resident = bool(threads)
        self.away = True
        """Whether coroutines run in a thread, because they were too heavy or have not been light yet."""
        self.offences = 0
        """Consecutive stretches that held the loop too long."""
        self._seen = 0
        self._needed = 8

    def _free(self) -> ModelThread:
        threads = self._threads
        if not threads:
            count = range(self._model.settings.threads or 1)
            threads += (ModelThread(f"model-{self._model.name}") for _ in count)
        return threads[0] if len(threads) == 1 else min(threads, key=lambda thread: thread.calls)

    async def predict(self, request: InferenceRequest) -> Any:
        """Run a coroutine in a thread."""
        thread = self._free()
        return await thread.call(self._model.predict, request, request=request_context(), took=self._took)

    def _took(self, seconds: float) -> None:
        self._ran(1, seconds < LIGHT)

    def ran_on_loop(self, seconds: float) -> None:
        """Count a coroutine that ran on the event loop, because it is not `away`."""
        if seconds > HEAVY:
            self.held()
        elif self.offences:
            self.offences = 0

    def _ran(self, times: int, light: int) -> None:
        """Count stretches in the thread, and how many of them would suit the loop."""
        if self._resident or not self.away:
            return
        self._seen = self._seen + light if light * 8 >= times * 7 else max(0, self._seen - 8 * times)
        if self._seen >= self._needed:
            self.away = False
            self.offences = 0
            if not any(thread.calls for thread in self._threads):
                self.close()

    def held(self) -> None:
        """Count a stretch that held the event loop too long."""
        self.offences += 1
        if self.offences >= IN_A_ROW and not self.away:
            self.away = True
            self._seen = 0
            self._needed *= 8  # a model that is only sometimes light must not move often

    def close(self) -> None:
        """End the threads. New ones are made on demand."""
        for thread in self._threads:
            thread.close()
        self._threads.clear()

    def stream(self, start: Callable[[], Any]) -> Any:
        return self._in_thread_from(start) if self.away else start()

    def moved(self, responses: ResponseIterator) -> ResponseIterator:
        """An iterator that continues `responses` in the thread."""
        return responses if type(responses) is ModelThreadResponses else self._in_thread_from(None, responses)

    def _in_thread_from(
        self, start: Callable[[], Any] | None, begun: ResponseIterator | None = None
    ) -> ModelThreadResponses:
        responses = ModelThreadResponses(self._free(), start, begun)
        if not self._resident:
            asyncio.wrap_future(responses.over).add_done_callback(
                lambda _: self._ran(responses.items, responses.light)
            )
        return responses
