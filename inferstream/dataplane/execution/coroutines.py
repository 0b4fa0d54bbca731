"""Runs a model's coroutines on the server's event loop or in the model's own thread."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from ...concurrency.model_thread import ModelThread
from ...context import request_context
from ...model import MLModel
from ...types import InferenceRequest, InferenceResponse
from .stretches import Turns, in_stretches
from .threads import LIGHT, ModelThreadResponses

logger = logging.getLogger("inferstream.model")

HEAVY = 0.001
"""Seconds that a coroutine may hold the server's event loop."""

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
    A warning names a blocking model once, and then the loop turns between its stretches.
    """

    def __init__(self, model: MLModel) -> None:
        self._model = model
        self._turns: Turns | None = None
        self._calls = self._streams = WATCHED
        self._watched = self._offences = 0
        self._longest = 0.0
        self.predict: Callable[[InferenceRequest], Awaitable[Any]] = self._watching

    def _watching(self, request: InferenceRequest) -> Awaitable[Any]:
        self._calls -= 1
        if not self._calls and self._turns is None:
            self.predict = self._model.predict
        return self._watch(self._model.predict(request))

    def _in_turns(self, request: InferenceRequest) -> Awaitable[Any]:
        return self._take_turns(self._model.predict(request))

    def _watch(self, awaitable: Awaitable[Any]) -> Awaitable[Any]:
        self._watched += 1
        return in_stretches(awaitable, self)

    def _take_turns(self, awaitable: Awaitable[Any]) -> Awaitable[Any]:
        assert self._turns is not None
        return in_stretches(awaitable, self._turns)

    def turn(self) -> None:
        """Never delay a stretch."""

    def ended(self, seconds: float) -> None:
        if seconds < HEAVY or self._turns is not None:
            return
        self._offences += 1
        self._longest = max(self._longest, seconds)
        if self._offences >= max(OFFENCES, self._watched / 2):
            self._turns = Turns()
            self.predict = self._in_turns
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
        if self._turns is not None:
            return DrivenResponses(responses, self._take_turns)
        if self._streams:
            self._streams -= 1
            return DrivenResponses(responses, self._watch, WATCHED_ITEMS)
        return responses


class DrivenResponses(AsyncIterator[InferenceResponse]):
    """An async generator. `drive` awaits the first `items`, or all of them."""

    def __init__(
        self,
        responses: AsyncGenerator[InferenceResponse],
        drive: Callable[[Awaitable[Any]], Awaitable[Any]],
        items: int = -1,
    ) -> None:
        self._responses = responses
        self._drive = drive
        self._left = items

    def __anext__(self) -> Awaitable[InferenceResponse]:
        if not self._left:
            return self._responses.__anext__()
        self._left -= 1
        return self._drive(self._responses.__anext__())

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
