"""Adaptive batching: requests that arrive close together run as one, and each caller receives its part."""

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
from ..checks import Checks, max_batch_size
from ..reply import Reply
from ..slots import Slots
from .base import Pipeline
from .limits import Limits
from .merging import BatchKey, batch_key, merge, split_outcome

logger = logging.getLogger("inferstream.dataplane")


class BatchedCall:
    """A call in a batch, which waits for its response or error."""

    __slots__ = ("arrived", "batch", "call", "outcome")

    @property
    def rows(self) -> int:
        return self.call.request.inputs[0].shape[0]

    def __init__(self, call: Call, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.arrived = loop.time()
        # Errors are stored as results, because asyncio logs future exceptions that are never retrieved.
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
        """Whether the batch is still queued."""
        return not self.begun or (self.call is not None and self.call.waits)

    def cancel_if_abandoned(self) -> None:
        """Cancel the batch if all members have left.

        Has no effect before the batch starts, because a task that is cancelled before it starts cannot report
        its end.
        """
        task = self.task
        if task is not None and self.begun and not any(member.waits for member in self.members):
            Scope(task).end(ClientLeft())

    def end(self) -> None:
        """Release the members.

        They refer to the batch, and the reference cycle would keep the requests alive.
        """
        self.members = []
        self.call = None
        self.task = None


class Pending:
    """Requests with the same key: the waiting members, and the number of running batches."""

    __slots__ = ("key", "members", "rows", "running", "timer")

    def __init__(self, key: BatchKey) -> None:
        self.key = key
        self.members: dict[BatchedCall, None] = {}
        self.rows = 0
        """Total number of rows of the members."""
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None

    def add(self, member: BatchedCall) -> None:
        self.members[member] = None
        self.rows += member.rows

    def remove(self, member: BatchedCall) -> None:
        del self.members[member]
        self.rows -= member.rows

    def fills(self, count: int, rows: int) -> bool:
        """Whether the members fill a batch of `count` requests or `rows` rows. 0 rows means unlimited."""
        return len(self.members) >= count or 0 < rows <= self.rows

    def take(self, count: int, rows: int) -> list[BatchedCall]:
        """Remove and return the first members: at most `count`, with at most `rows` rows in total.

        0 rows means unlimited.
        """
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
    """Runs requests in batches. Streams pass through.

    At most `slots` batches run at the same time. A batch has at most `size` requests with equal keys, and at
    most `rows` rows. 0 rows means unlimited.

    A batch starts when no other batch with its key is running, when it is full, or when its first request has
    waited `wait` seconds. A single request is therefore never delayed.
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
        """Keys that are due and wait for a slot, in order."""
        self._tasks = Tasks()

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if call.operation is not INFER:
            return self._inner(call)
        key = batch_key(call.request, self._checks)
        return self._inner(call) if key is None else self._share(key, call)

    async def _share(self, key: BatchKey, call: Call) -> Reply:
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = Pending(key)
            if self._running < self._slots.count:
                return await self._run_alone(pending, call)
        member = BatchedCall(call, asyncio.get_running_loop())
        pending.add(member)
        self._meters.depths.observe(len(pending.members))
        # Otherwise, the key already waits for its timer, and another member changes nothing.
        if pending.timer is None or pending.fills(self._size, self._rows):
            self._place(pending)
            self._send()
        try:
            outcome = await member.outcome
        except BaseException:  # Cancelled.
            self._withdraw(pending, member)
            raise
        if isinstance(outcome, BaseException):
            try:
                raise outcome
            finally:
                del outcome, member  # Avoid a cycle: the traceback refers to this frame.
        return Reply(outcome)

    async def _run_alone(self, pending: Pending, call: Call) -> Reply:
        """Run a call that does not have to wait, without the overhead of a batch."""
        self._count_start(pending, 1)
        self._meters.waits.observe(0.0)
        try:
            return await self._inner(call)
        finally:
            self._finish_batch(pending)

    def _place(self, pending: Pending) -> None:
        """Update a key: it becomes ready, waits for more members, or is removed."""
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
            pending.timer = loop.call_at(due, self._on_due, pending)

    def _on_due(self, pending: Pending) -> None:
        pending.timer = None
        self._place(pending)
        self._send()

    def _send(self) -> None:
        while self._ready and self._running < self._slots.count:
            pending = next(iter(self._ready))
            del self._ready[pending]
            self._start_batch(pending)
            self._place(pending)

    def _start_batch(self, pending: Pending) -> None:
        batch = Batch(pending.take(self._size, self._rows))
        now = asyncio.get_running_loop().time()
        for member in batch.members:
            member.batch = batch
            member.call.batch_wait = now - member.arrived
            self._meters.waits.observe(member.call.batch_wait)
        self._count_start(pending, len(batch.members))
        batch.task = self._tasks.start(self._run(pending, batch))

    def _count_start(self, pending: Pending, size: int) -> None:
        self._running += 1
        pending.running += 1
        self._meters.sizes.observe(size)

    def _finish_batch(self, pending: Pending) -> None:
        self._running -= 1
        pending.running -= 1
        self._place(pending)
        self._send()

    def _withdraw(self, pending: Pending, member: BatchedCall) -> None:
        batch = member.batch
        if batch is None or batch.waits:
            self._queue.count_early_exit(member.call.expired)
        if batch is not None:
            batch.cancel_if_abandoned()
            return
        pending.remove(member)
        self._place(pending)

    async def _run(self, pending: Pending, batch: Batch) -> None:
        batch.begun = True
        request_id_var.set("")  # Otherwise it would be the id of the call that completed the batch.
        try:
            await self._run_members(batch, batch.members)
        except Exception as error:
            logger.error("batch failed", exc_info=error)
        finally:
            for member in batch.members:
                if member.waits:
                    member.give(
                        InferenceFailed("The batch of this request failed; the server's log says why.")
                    )
            batch.end()
            self._finish_batch(pending)

    async def _run_members(self, batch: Batch, members: Sequence[BatchedCall]) -> None:
        """Run these members as one request. If one may be at fault, retry in halves to isolate it."""
        members = [member for member in members if member.waits]
        if not members:
            return
        requests = [member.call.request for member in members]
        outcome: InferenceResponse | RowErrors | None = None
        try:
            outcome = await self._ask(batch, members)
        except RowErrors as error:
            outcome = error.with_traceback(None)  # Avoid a cycle: it refers to this frame.
        except InferstreamError as error:
            if len(members) == 1 or not _blames_request(error):
                _give_all(members, error)
                return
        # Outside the `except` block, so that errors of the halves do not have this one as their context.
        if outcome is None:
            half = len(members) // 2
            await self._run_members(batch, members[:half])
            await self._run_members(batch, members[half:])
            return
        if len(members) == 1:
            members[0].give(outcome)
            return
        try:
            outcomes = split_outcome(outcome, requests)
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
        if call.waited:
            for member in members:
                member.call.waited += call.waited
        assert reply.first is not None
        return reply.first


def _blames_request(error: InferstreamError) -> bool:
    """Whether model code raised the error, so that a batch without the faulty request might succeed."""
    return isinstance(error, ModelError) or error.code in (Code.INVALID, Code.INTERNAL)


def _give_all(members: Sequence[BatchedCall], error: Exception) -> None:
    error.__traceback__ = None  # It refers to the members, which keep the error.
    for member in members:
        member.give(error)


MANY = 4096
"""Maximum number of calls that batching admits, unless two full batches need more."""


def admission_limit(slots: int, size: int) -> int:
    """Return the number of calls to admit: enough to fill `slots` batches while another collects calls."""
    return min((slots + 1) * size, max(slots, 2 * size, MANY))


def add_batching(model: Pipeline) -> Pipeline:
    """Add batching and an inner limit, which applies to batches and streams.

    If `max_batch_time` is 0 or the model only streams, logs a warning and returns the model unchanged.
    """
    settings = model.settings
    size, wait = settings.max_batch_size, settings.max_batch_time
    if wait <= 0:
        why = " without max_batch_time"
    elif not model.execution.capabilities.predict:
        why = ", because the model only streams"
    else:
        slots, meters = model.slots, model.meters
        admitted = slots.derive(partial(admission_limit, size=size))
        most = admission_limit(MANY, size)  # The maximum number of queued batches, limited by `admitted`.
        inner = Limits(model.handler, slots, most, settings.priority_aging, meters.queue)
        # Functions take single items, so their limit counts items. Classes take requests, like in MLServer.
        rows = size if model.execution.signature.function else max_batch_size(settings)
        handler = Batching(inner, model.checks, slots, size, wait, meters.of(BatchMeters), meters.queue, rows)
        return replace(model, handler=handler, slots=admitted, form=None)
    logger.warning("model %s: max_batch_size has no effect%s", settings.name, why)
    return model
