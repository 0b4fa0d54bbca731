"""Runs requests that arrive close together as one, and gives each caller its part of the response."""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice

from ...concurrency.scope import ClientLeft, Scope
from ...concurrency.tasks import Tasks
from ...context import request_id_var
from ...errors import Code, InferenceFailed, InferstreamError, InvalidOutput, ModelError
from ...rows import RowErrors
from ...telemetry.stages import BatchMeters, QueueMeters
from ...types import InferenceResponse
from ..call import INFER, Call, Handler, MergedCall, new_id
from ..checks import Checks, most_rows_of
from ..reply import Reply
from ..slots import Slots
from .base import Pipeline
from .limits import Limits
from .merging import BatchKey, deal, key_of, merge

logger = logging.getLogger("inferstream.dataplane")


class BatchedCall:
    """One call of a batch, which waits for its response or error."""

    __slots__ = ("arrived", "batch", "call", "outcome")

    @property
    def rows(self) -> int:
        return self.call.request.inputs[0].shape[0]

    def __init__(self, call: Call, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.arrived = loop.time()
        # Errors are results here, because asyncio logs a future with an exception that was never retrieved.
        self.outcome: asyncio.Future[InferenceResponse | Exception] = loop.create_future()
        self.batch: Batch | None = None

    @property
    def waits(self) -> bool:
        return not self.outcome.done()

    def give(self, outcome: InferenceResponse | Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Batch:
    __slots__ = ("begun", "call", "members", "task")

    def __init__(self, members: list[BatchedCall]) -> None:
        self.members = members
        self.begun = False
        self.call: Call | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether the model has not begun it."""
        return not self.begun or (self.call is not None and self.call.waits)

    def left(self) -> None:
        """Cancel a batch without members. It must have begun, because a task cancelled before never reports its end."""
        task = self.task
        if task is not None and self.begun and not any(member.waits for member in self.members):
            Scope(task).end(ClientLeft())

    def end(self) -> None:
        """Release the members. They refer to their batch, and the cycle would hold requests until a collection."""
        self.members = []
        self.call = None
        self.task = None


class Pending:
    """Requests with one key: the waiting members, and the number of running batches."""

    __slots__ = ("key", "members", "rows", "running", "timer")

    def __init__(self, key: BatchKey) -> None:
        self.key = key
        self.members: dict[BatchedCall, None] = {}
        self.rows = 0
        """The rows of the members."""
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None

    def add(self, member: BatchedCall) -> None:
        self.members[member] = None
        self.rows += member.rows

    def remove(self, member: BatchedCall) -> None:
        del self.members[member]
        self.rows -= member.rows

    def fills(self, count: int, rows: int) -> bool:
        """Whether the members are enough for a batch of `count` requests, or of `rows` rows; 0 for any number."""
        return len(self.members) >= count or 0 < rows <= self.rows

    def take(self, count: int, rows: int) -> list[BatchedCall]:
        """The first members, at most `count` and as many as have `rows` rows together; 0 for any number of rows."""
        taken = list(islice(self.members, count))
        if rows:
            sums = accumulate(member.rows for member in taken)
            taken = taken[: max(1, sum(1 for each in sums if each <= rows))]
        for member in taken:
            self.remove(member)
        self.stop_timer()
        return taken

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Batching:
    """Runs at most `slots` batches at once, of at most `size` requests with one key, and of `rows` rows, or any number
    of them if it is 0. Streams pass through.

    A batch leaves when none with its key runs, when it has `size` requests or `rows` rows, or when its first request
    has waited `wait` seconds. So a single request is never delayed.
    """

    def __init__(
        self,
        inner: Handler,
        checks: Checks,
        slots: Slots,
        size: int,
        wait: float,
        meters: BatchMeters,
        queue: QueueMeters | None = None,
        rows: int = 0,
    ) -> None:
        self._inner = inner
        self._rows = rows
        self._checks = checks
        self._slots = slots
        slots.watch(lambda _: self._send())
        self._size = size
        self._wait = wait
        self._meters = meters
        self._queue = queue or QueueMeters()
        self._running = 0
        self._pending: dict[BatchKey, Pending] = {}
        self._ready: dict[Pending, None] = {}
        """Keys that could leave and have no slot, in order."""
        self._tasks = Tasks()

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if call.operation is not INFER:
            return self._inner(call)
        key = key_of(call.request, self._checks)
        return self._inner(call) if key is None else self._share(key, call)

    async def _share(self, key: BatchKey, call: Call) -> Reply:
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = Pending(key)
            if self._running < self._slots.count:
                return await self._alone(pending, call)
        member = BatchedCall(call, asyncio.get_running_loop())
        pending.add(member)
        self._meters.depths.observe(len(pending.members))
        # Otherwise the key waits, and one more member changes nothing.
        if pending.timer is None or pending.fills(self._size, self._rows):
            self._place(pending)
            self._send()
        try:
            outcome = await member.outcome
        except BaseException:  # cancelled
            self._withdraw(pending, member)
            raise
        if isinstance(outcome, BaseException):
            try:
                raise outcome
            finally:
                del outcome, member  # the traceback refers to this frame, which would be a cycle
        return Reply(outcome)

    async def _alone(self, pending: Pending, call: Call) -> Reply:
        """Run a call as it came if it need not wait. It costs the same as without batching."""
        self._started(pending, 1)
        self._meters.waits.observe(0.0)
        try:
            return await self._inner(call)
        finally:
            self._ended(pending)

    def _place(self, pending: Pending) -> None:
        """Decide what happens to a key: leave, wait for more, or be removed."""
        if not pending.members:
            pending.stop_timer()
            self._ready.pop(pending, None)
            if not pending.running:
                del self._pending[pending.key]
            return
        loop = asyncio.get_running_loop()
        due = next(iter(pending.members)).arrived + self._wait
        if not pending.running or pending.fills(self._size, self._rows) or due <= loop.time():
            self._ready[pending] = None
        elif pending.timer is None:
            pending.timer = loop.call_at(due, self._due, pending)

    def _due(self, pending: Pending) -> None:
        pending.timer = None
        self._place(pending)
        self._send()

    def _send(self) -> None:
        while self._ready and self._running < self._slots.count:
            pending = next(iter(self._ready))
            del self._ready[pending]
            self._leave(pending)
            self._place(pending)

    def _leave(self, pending: Pending) -> None:
        batch = Batch(pending.take(self._size, self._rows))
        now = asyncio.get_running_loop().time()
        for member in batch.members:
            member.batch = batch
            self._meters.waits.observe(now - member.arrived)
        self._started(pending, len(batch.members))
        batch.task = self._tasks.start(self._run(pending, batch))

    def _started(self, pending: Pending, size: int) -> None:
        self._running += 1
        pending.running += 1
        self._meters.sizes.observe(size)

    def _ended(self, pending: Pending) -> None:
        self._running -= 1
        pending.running -= 1
        self._place(pending)
        self._send()

    def _withdraw(self, pending: Pending, member: BatchedCall) -> None:
        batch = member.batch
        if batch is None or batch.waits:
            self._queue.left(member.call.expired)
        if batch is not None:
            batch.left()
            return
        pending.remove(member)
        self._place(pending)

    async def _run(self, pending: Pending, batch: Batch) -> None:
        batch.begun = True
        request_id_var.set("")  # of the call that completed the batch
        try:
            await self._run_members(batch, batch.members)
        except Exception as error:
            logger.error("a batch failed", exc_info=error)
        finally:
            for member in batch.members:
                if member.waits:
                    member.give(
                        InferenceFailed("The batch of this request failed; the server's log says why.")
                    )
            batch.end()
            self._ended(pending)

    async def _run_members(self, batch: Batch, members: Sequence[BatchedCall]) -> None:
        """Run these members as one. If a request may be at fault, run halves to find it."""
        members = [member for member in members if member.waits]
        if not members:
            return
        requests = [member.call.request for member in members]
        outcome: InferenceResponse | RowErrors | None = None
        try:
            outcome = await self._ask(batch, members)
        except RowErrors as error:
            outcome = error.with_traceback(None)  # it refers to this frame, which would be a cycle
        except InferstreamError as error:
            if len(members) == 1 or not _blames_request(error):
                _give_all(members, error)
                return
        if outcome is None:  # not in the `except`: errors of the halves would refer to this one
            half = len(members) // 2
            await self._run_members(batch, members[:half])
            await self._run_members(batch, members[half:])
            return
        if len(members) == 1:
            members[0].give(outcome)
            return
        try:
            outcomes = deal(outcome, requests)
        except InvalidOutput as error:
            logger.error("%s", error)
            _give_all(members, error)
            return
        for member, own in zip(members, outcomes, strict=True):
            member.give(own)

    async def _ask(self, batch: Batch, members: Sequence[BatchedCall]) -> InferenceResponse:
        first = members[0].call
        deadlines = [member.call.deadline for member in members]
        latest = None if None in deadlines else max(deadline for deadline in deadlines if deadline)
        if len(members) == 1:
            request, headers = first.request, first.headers
        else:
            request, headers = merge([member.call.request for member in members], new_id()), {}
        call = MergedCall(INFER, first.model, first.version, request, headers, deadline=latest)
        call.halved = len(members) > 1
        if {member.call.principal for member in members} == {first.principal}:
            call.principal = first.principal
        batch.call = call
        call.priority = min(member.call.priority for member in members)
        reply = await self._inner(call)
        assert reply.first is not None
        return reply.first


def _blames_request(error: InferstreamError) -> bool:
    """Whether model code raised it, so that a batch without some request might succeed."""
    return isinstance(error, ModelError) or error.code in (Code.INVALID, Code.INTERNAL)


def _give_all(members: Sequence[BatchedCall], error: Exception) -> None:
    error.__traceback__ = None  # refers to the members, which keep the error
    for member in members:
        member.give(error)


MANY = 4096
"""Calls that batching admits at most, unless two full batches need more: a bound, not a policy."""


def callers(slots: int, size: int) -> int:
    """The number of calls that fills each of `slots` batches while one more gathers."""
    return min((slots + 1) * size, max(slots, 2 * size, MANY))


def batched(model: Pipeline) -> Pipeline:
    """The model in batches, with an inner limit that they share with streams; as it is without a `max_batch_time`."""
    settings = model.settings
    size, wait = settings.max_batch_size, settings.max_batch_time
    if wait <= 0:
        why = " without max_batch_time"
    elif not model.execution.capabilities.predict:
        why = ", because the model only streams"
    else:
        slots, meters = model.slots, model.meters
        admitted = slots.through(partial(callers, size=size))
        most = callers(MANY, size)  # of batches in the queue, which `admitted` bounds
        inner = Limits(model.handler, slots, most, settings.priority_aging, meters.queue)
        # Functions get items, and their limit counts items. Classes get requests, as in MLServer.
        rows = size if model.execution.signature.function else most_rows_of(settings)
        handler = Batching(inner, model.checks, slots, size, wait, meters.of(BatchMeters), meters.queue, rows)
        return replace(model, handler=handler, slots=admitted, form=None)
    logger.warning("model %s: max_batch_size has no effect%s", settings.name, why)
    return model
