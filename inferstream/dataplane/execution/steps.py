"""Step models: all streams of a model advance together, and new streams join at the next step."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any

from ...concurrency.channel import Channel
from ...concurrency.model_thread import ModelThread, Work
from ...concurrency.threads import Threads
from ...context import request_context
from ...errors import InferenceFailed, InferstreamError, InvalidOutput, StepFailed
from ...model import Finished, StepModel
from ...telemetry.context import model_var
from ...telemetry.stages import QueueMeters, StepMeters
from ...tokens import count_tokens
from ...types import InferenceRequest, InferenceResponse
from ..call import Call
from ..slots import Queue
from ..turns import Turns, WaitingCalls
from .method_caller import MethodCaller, ModelMethod
from .payloads import Payloads
from .responses import to_invalid_output
from .threads import AHEAD


class SteppedStream(Channel[InferenceResponse]):
    """A stream of a step model, for one request. Calls `changed` when its reader leaves or makes room."""

    def __init__(
        self, request: InferenceRequest, call: Call, looks: int, changed: Callable[["SteppedStream"], None]
    ) -> None:
        super().__init__(AHEAD)
        self.request = request
        self.call = call
        self.looks = looks  # The value of `Steps._looks` when it joined.
        self.waits = True
        """Whether it is still waiting to be admitted."""
        self.context = copy_context()  # The context of the call's task, for `admit`.
        self.state: Any = None
        self._changed = changed
        self.came = self._loop.time()
        self.joined = perf_counter()  # The loop's clock has a resolution of 1 ms.
        self._request_context = request_context()
        self._released = Work()
        self._request_context.thread = self._released

    @property
    def advances(self) -> bool:
        """Whether the next step includes it. Steps skip streams with a slow reader."""
        return self.open and self.has_room()

    def take(self, emission: Any) -> None:
        """Add the result of a step. Invalid objects raise an error when they are read."""
        if not self.open or emission is None:
            return
        if type(emission) is InferenceResponse:
            self.put(emission)
        elif isinstance(emission, Finished):
            self._put_all(emission.responses)
            self.end()
        elif isinstance(emission, BaseException):
            self.fail(emission)
        elif isinstance(emission, (list, tuple)):
            self._put_all(emission)
        else:
            self.put(emission)

    def _put_all(self, responses: Iterable[Any]) -> None:
        for response in responses:
            self.put(response)

    def fail(self, error: BaseException) -> None:
        """End the stream with `error`, which the reader receives after all earlier responses."""
        if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
            # A reader would treat these as the end of the stream, the task or the process.
            kind = type(error).__name__
            error, cause = RuntimeError(f"model code raised {kind}"), error
            error.__cause__ = cause
        self.end(error)

    def _go_on(self) -> None:
        self._watched = False
        self._changed(self)

    async def aclose(self) -> None:
        """End the stream for its reader. Returns immediately, and the next step releases the state."""
        self._request_context.cancelled = True
        if self.open:
            self.close()
        else:
            self._items.clear()

    def release(self) -> None:
        self.state = None
        self._released.end()


logger = logging.getLogger("inferstream.model")

CLOSE_LIMIT = 5.0
"""Timeout when unloading, in seconds, for the current step and again for the release of its states."""


class Steps:
    """Admits streams up to `most` active ones, advances them in steps, and releases finished ones.

    A single task calls these model methods while there are streams. `aging` is
    the argument of `Queue`. `async def` methods run on the event loop of `thread`, or on the current one if
    it is None.
    """

    def __init__(
        self,
        model: StepModel,
        most: int,
        aging: float,
        thread: ModelThread | None = None,
        threads: Threads | None = None,
    ) -> None:
        self._model = model
        self._most = most
        self._admit_one, self._step_all = ModelMethod(model.admit), ModelMethod(model.step)
        self._release_one = ModelMethod(model.release)
        self._releases = type(model).release is not StepModel.release
        self._caller = MethodCaller(f"steps-{model.name}", thread, threads)
        self._context = Context()
        self._context.run(model_var.set, (model.name, model.version or ""))
        self._aging = aging
        self._turns: Turns | None = None
        self._waiting: WaitingCalls[SteppedStream] = Queue(aging)
        self._entering: list[SteppedStream] = []
        self._active: list[SteppedStream] = []
        self._task: asyncio.Task[None] | None = None
        self._changes = asyncio.Event()
        self._closed = False
        self._looks = 0
        """Number of admissions and steps so far. A stream not admitted by the next one had to wait."""
        self._unloading = f"Model {model.name} is being unloaded."
        self.meters = StepMeters()
        self.queue = QueueMeters()

    async def open(self, payloads: Payloads) -> AsyncIterator[InferenceResponse]:
        """Return an iterator over the responses of a call.

        Each request becomes a stream, one after another.
        """
        return self._each(payloads) if payloads.more else self._join(await anext(payloads), payloads.call)

    def set_turns(self, turns: Turns) -> None:
        """Set the policy that admits streams. Must be called before the first stream."""
        self._turns = turns
        self._waiting = turns.queue(self._aging)

    def _join(self, request: InferenceRequest, call: Call) -> SteppedStream:
        if self._closed:
            raise StepFailed(self._unloading)
        stream = SteppedStream(request, call, self._looks, self._update)
        self._waiting.add(stream, call, stream.came)
        self.meters.waiting += 1
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(), context=self._context.copy())
        self._changes.set()
        return stream

    async def _each(self, payloads: Payloads) -> AsyncIterator[InferenceResponse]:
        async for request in payloads:
            stream = self._join(request, payloads.call)
            items, last = 0, None
            try:
                async for item in stream:  # A response, or a string that is converted later.
                    items, last = items + 1, getattr(item, "parameters", None)
                    yield item
            finally:
                await stream.aclose()
            if self._turns is not None:
                self._turns.settle(payloads.call, count_tokens(last, items))

    async def close(self) -> None:
        """Fail all streams and release their states. Does not wait for a step that hangs."""
        self._closed = True
        self._end_all(StepFailed(self._unloading))
        task = self._task
        if task is not None and not await _wait_for_end(task):
            logger.error("model %s: a step is still running; no longer waiting for it", self._model.name)
            task.cancel()
            await _wait_for_end(task)
        self._caller.close()

    def _update(self, stream: SteppedStream) -> None:
        if stream.waits and not stream.open:
            self._waiting.remove(stream, stream.call)
            self._stop_waiting(stream)
            self.queue.count_early_exit(stream.call.expired)
            stream.release()
        self._changes.set()

    def _stop_waiting(self, stream: SteppedStream) -> None:
        stream.waits = False
        self.meters.waiting -= 1

    def _next(self) -> SteppedStream:
        stream = self._waiting.pop()
        self._stop_waiting(stream)
        return stream

    async def _run(self) -> None:
        try:
            while self._active or self._waiting:
                await self._release()
                await self._admit()
                await self._release()  # Streams may have left during admission.
                advancing = [stream for stream in self._active if stream.advances]
                if advancing:
                    await self._step(advancing)
                elif self._idle:
                    self._changes.clear()
                    await self._changes.wait()
        finally:
            self._end_all(StepFailed(f"The steps of model {self._model.name} were interrupted."))
            await self._release()
            self._task = None

    @property
    def _idle(self) -> bool:
        """Whether no step is possible until a reader reads or leaves, or a new stream joins."""
        if self._waiting and len(self._active) < self._most:
            return False
        return bool(self._active) and all(stream.open for stream in self._active)

    async def _admit(self) -> None:
        self._looks += 1
        count = min(self._most - len(self._active), len(self._waiting))
        if not count:
            return
        self._entering = [self._next() for _ in range(count)]
        now = asyncio.get_running_loop().time()
        for stream in self._entering:
            if self._looks - stream.looks > 1:
                self.queue.waits.observe(now - stream.came)
        arguments = [(stream.request, stream.context) for stream in self._entering]
        outcomes = await self._caller.call_each(self._admit_one, arguments)
        entering, self._entering = self._entering, []
        now = perf_counter()
        for stream, outcome in zip(entering, outcomes, strict=True):
            if outcome.error is not None:
                stream.fail(outcome.error)
                stream.release()
            else:
                stream.state = outcome.value
                self._active.append(stream)
                self.meters.active += 1
                self.meters.waits.observe(now - stream.joined)

    async def _release(self) -> None:
        over = [stream for stream in self._active if not stream.open]
        if not over:
            return
        self._active = [stream for stream in self._active if stream.open]
        self.meters.active -= len(over)
        if self._releases:
            arguments = [(stream.state, self._context) for stream in over]
            for outcome in await self._caller.call_each(self._release_one, arguments):
                if outcome.error is not None:
                    logger.error("model %s failed in release", self._model.name, exc_info=outcome.error)
        for stream in over:
            stream.release()

    async def _step(self, streams: Sequence[SteppedStream]) -> None:
        states = [stream.state for stream in streams]
        started = perf_counter()
        outcome = await self._caller.call_once(self._step_all, states, self._context)
        self.meters.count_step(len(states), perf_counter() - started)
        self._looks += 1
        if outcome.error is not None:
            self._fail(streams, outcome.error)
            return
        try:
            emissions = list(outcome.value)
            if len(emissions) != len(states):
                raise InvalidOutput(f"step answered {len(emissions)} for {len(states)} states")
        except BaseException as error:  # Model code may raise anything.
            self._fail(streams, error)
            return
        for stream, emission in zip(streams, emissions, strict=True):
            stream.take(emission)

    def _fail(self, streams: Sequence[SteppedStream], error: BaseException) -> None:
        """End all streams of a step with the model's error, which is logged once."""
        name = self._model.name
        error = to_invalid_output(error, name)
        is_named = (
            isinstance(error, InvalidOutput) and len(streams) == 1
        )  # It may contain a value of one client, which others must not see.
        if not is_named and (not isinstance(error, InferstreamError) or isinstance(error, InferenceFailed)):
            logger.error("model %s failed in a step over %d streams", name, len(streams), exc_info=error)
            text = f"Model {name} failed in a step that this request was part of; the server's log says why."
            error, cause = StepFailed(text), error
            error.__cause__ = cause
        for stream in streams:
            stream.fail(error)

    def _end_all(self, error: Exception) -> None:
        while self._waiting:
            stream = self._next()
            stream.fail(error)
            stream.release()
        for stream in (*self._entering, *self._active):
            stream.fail(error)
        self._changes.set()


async def _wait_for_end(task: asyncio.Task[Any]) -> bool:
    done, _ = await asyncio.wait([task], timeout=CLOSE_LIMIT)
    return bool(done)
