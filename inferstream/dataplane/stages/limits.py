"""Concurrency limits: a maximum number of running calls, and a bounded queue of waiting calls."""

import asyncio
from dataclasses import replace

from ...concurrency.inflight import InflightBytes, RequestBytes
from ...errors import DeadlineExceeded, Overloaded
from ...telemetry.stages import QueueMeters
from ...tokens import count_tokens
from ...types import InferenceRequest, Parameters
from ..call import Call, Handler
from ..reply import LastParameters, Reply, Watcher
from ..slots import Queue, Slots
from ..turns import Turns, WaitingCalls
from .base import Pipeline, Shared

Turn = asyncio.Future[None]

VALUE_BYTES = 64
"""Size of a small Python object and a reference to it."""


class Limits(Watcher):
    """Runs at most `slots` calls at a time, queues up to `length` more, and rejects the rest.

    A stream holds its slot until it ends. `turns` is the scheduling policy. By default, waiting calls are in
    a `Queue(aging)`.
    """

    def __init__(
        self,
        inner: Handler,
        slots: Slots,
        length: int,
        aging: float,
        meters: QueueMeters | None = None,
        turns: Turns | None = None,
        inflight: InflightBytes | None = None,
    ) -> None:
        """`inflight` counts the bytes of decoded tensors in waiting calls."""
        self._inner = inner
        self._inflight = inflight or InflightBytes()
        self._turns = turns
        self._slots = self.free = slots.count
        """Number of free slots. Negative if the limit was lowered below the number of running calls."""
        slots.watch(self._resize)
        self._length = length
        self._waiting: WaitingCalls[Turn] = Queue(aging) if turns is None else turns.queue(aging)
        self._meters = meters or QueueMeters()

    def refuse_if_full(self, model: str) -> None:
        """Raise Overloaded, and count it, if a new call would be rejected."""
        if self.free <= 0 and self._waiting.length >= self._length:
            self._meters.full += 1
            raise Overloaded(f"Model {model} is overloaded: {self._length} calls are waiting already.")

    async def __call__(self, call: Call) -> Reply:
        if self.free > 0 and not self._waiting.length:
            self.free -= 1
        else:
            await self._wait(call)
        if self._turns is not None:
            self._turns.start(call)
        try:
            reply = await self._inner(call)
        except BaseException:  # Including cancellation.
            self._release()
            raise
        if reply.single:
            self._release()
            return reply
        return reply.watch(self)

    async def _wait(self, call: Call) -> None:
        self.refuse_if_full(call.model)
        held = RequestBytes(self._inflight)
        held.add_whole(decoded_bytes(call.request))
        meters = self._meters
        loop = asyncio.get_running_loop()
        came = loop.time()
        turn: Turn = loop.create_future()
        self._waiting.add(turn, call, came)
        meters.depth += 1
        call.waits = True
        try:
            await turn
        except BaseException:  # Cancelled.
            if turn.done() and not turn.cancelled():
                self._release()
            else:
                self._waiting.remove(turn, call)
            if not call.merged:
                meters.count_early_exit(call.expired)
            raise
        finally:
            held.close()
            call.waits = False
            meters.depth -= 1
            now = loop.time()
            call.waited += now - came
        if call.deadline is not None and call.deadline <= now:
            # The deadline has passed, but the event loop has not run the timer yet.
            meters.count_early_exit(expired=True)
            self._release()
            raise DeadlineExceeded
        meters.waits.observe(now - came)

    def end(self, error: BaseException | None) -> None:
        self._release()

    def _release(self) -> None:
        self.free += 1
        while self.free > 0 and self._waiting.length:
            turn = self._waiting.pop()
            if not turn.done():  # A call that was just cancelled may still be queued.
                self.free -= 1
                turn.set_result(None)

    def _resize(self, slots: int) -> None:
        more, self._slots = slots - self._slots, slots
        self.free += more - 1
        self._release()


def decoded_bytes(request: InferenceRequest) -> int:
    """Return the size of the decoded tensors in bytes. Other tensors are views of the request body."""
    size = 0
    if request.form is not None:  # Reading its inputs would convert the values to tensors.
        return size
    for tensor in request.inputs:
        array, values = tensor.data.array, tensor.data.values
        if array is not None and array.base is None:
            size += array.nbytes
        elif type(values) is list:
            size += len(values) * VALUE_BYTES
    return size


class _Used(LastParameters):
    """When a call ends, releases its values and reports the number of tokens that it used."""

    __slots__ = ("_call",)

    def __init__(self, call: Call, first: Parameters | None) -> None:
        super().__init__(first)
        self._call = call

    def end(self, error: BaseException | None) -> None:
        self._call.end_values(count_tokens(self.parameters, self.items, self.first))


def release_call_values(inner: Handler) -> Handler:
    """Wrap a handler to release the values of each call when it ends. Used for calls without an admission."""

    async def handle(call: Call) -> Reply:
        try:
            reply = await inner(call)
        except BaseException:  # Including cancellation.
            call.end_values(0)
            raise
        return reply.watch(_Used(call, reply.parameters))

    return handle


def limits(model: Pipeline, shared: Shared) -> Pipeline:
    settings, meters = model.settings, model.meters
    turns = None if shared.turns is None else shared.turns()
    if turns is not None:
        model.execution.set_turns(turns)
    aging = settings.priority_aging
    inflight = shared.meters.inflight
    handler = Limits(model.handler, model.slots, settings.max_queue, aging, meters.queue, turns, inflight)

    def refuse(name: str) -> None:
        if handler.free > 0:
            return
        try:
            handler.refuse_if_full(name)
        except Overloaded as refusal:
            meters.durations[refusal.code.value].observe(0.0)  # Like the metrics stage.
            raise

    return replace(model, handler=handler, refuse=refuse)
