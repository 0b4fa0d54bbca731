"""Lets requests that arrive close together run as one, and each caller have its own part of the answer."""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from itertools import islice

from ...concurrency.interruption import Interruption
from ...errors import Code, InferenceFailed, InferstreamError, InvalidOutput, ModelError
from ...rows import RowErrors
from ...telemetry.batches import BatchMeters
from ...telemetry.queues import QueueMeters
from ...types import InferenceResponse
from ..call import Call, MergedCall, Operation, new_id
from ..checks import Checks
from ..handler import Handler
from ..reply import Reply
from .merging import Key, deal, key_of, merge

logger = logging.getLogger("inferstream.dataplane")

MANY = 4096
"""Calls that batching lets in at most, unless two full batches need more: a bound, not a policy."""


def callers(slots: int, size: int) -> int:
    """Calls to let in so that each of `slots` batches can be full while one more gathers."""
    return min((slots + 1) * size, max(slots, 2 * size, MANY))


class Member:
    """One caller of a batch: waits for its answer, or for the error that is its answer."""

    __slots__ = ("answer", "arrived", "batch", "call")

    def __init__(self, call: Call, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.arrived = loop.time()
        # Errors are results here, because a future complains of an exception that its caller left behind.
        self.answer: asyncio.Future[InferenceResponse | Exception] = loop.create_future()
        self.batch: Batch | None = None

    @property
    def waits(self) -> bool:
        return not self.answer.done()

    def give(self, answer: InferenceResponse | Exception) -> None:
        """Answer the caller, if it is still there."""
        if not self.answer.done():
            self.answer.set_result(answer)


class Batch:
    """Members that run together, and the task that runs them."""

    __slots__ = ("begun", "call", "members", "task")

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.begun = False
        self.call: Call | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether its model has not begun with it."""
        return not self.begun or (self.call is not None and self.call.waits)

    def left(self) -> None:
        """A member has left; when nobody waits any more, nobody needs the model to go on.

        A task cancelled before its first step never runs at all, not even to say that it has ended.
        """
        task = self.task
        if task is not None and self.begun and not any(member.waits for member in self.members):
            Interruption(task, lambda: not task.done())

    def end(self) -> None:
        """Let go of the members, which know their batch: a circle would keep requests until a collection."""
        self.members = []
        self.call = None
        self.task = None


class Line:
    """The requests of one key: those that gather, and how many batches of them run."""

    __slots__ = ("key", "members", "running", "timer")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.members: dict[Member, None] = {}
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None

    def take(self, count: int) -> list[Member]:
        """The members that leave now, the oldest first."""
        taken = list(islice(self.members, count))
        for member in taken:
            del self.members[member]
        self.stop_timer()
        return taken

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Batching:
    """Runs at most `slots` batches at once, of at most `size` requests that have one key; streams pass by.

    Requests leave at once when none with their key is running, when there are `size` of them, and when
    the first has waited for `wait` seconds. So one that comes alone is never delayed.
    """

    def __init__(
        self,
        inner: Handler,
        checks: Checks,
        slots: int,
        size: int,
        wait: float,
        meters: BatchMeters,
        queue: QueueMeters | None = None,
    ) -> None:
        self._inner = inner
        self._checks = checks
        self._slots = slots
        self._size = size
        self._wait = wait
        self._meters = meters
        self._queue = queue or QueueMeters()
        self._running = 0
        self._lines: dict[Key, Line] = {}
        self._ready: dict[Line, None] = {}
        """Lines that could leave and have no slot, in their order."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if call.operation is not Operation.INFER:
            return self._inner(call)
        key = key_of(call.request, self._checks)
        return self._inner(call) if key is None else self._share(key, call)

    async def _share(self, key: Key, call: Call) -> Reply:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key)
            if self._running < self._slots:
                return await self._alone(line, call)
        member = Member(call, asyncio.get_running_loop())
        line.members[member] = None
        self._meters.depths.observe(len(line.members))
        if (
            line.timer is None or len(line.members) >= self._size
        ):  # else it waits, and one more changes nothing
            self._place(line)
            self._send()
        try:
            answer = await member.answer
        except asyncio.CancelledError:
            self._withdraw(line, member)
            raise
        if isinstance(answer, InferenceResponse):
            return Reply(answer)
        raise answer

    async def _alone(self, line: Line, call: Call) -> Reply:
        """Run a call for which there is nothing to wait as it came: it costs what it would without batching."""
        self._started(line, 1)
        self._meters.waits.observe(0.0)
        try:
            return await self._inner(call)
        finally:
            self._ended(line)

    def _place(self, line: Line) -> None:
        """Decide what a line does next: leave, wait for more, or be forgotten."""
        if not line.members:
            line.stop_timer()
            self._ready.pop(line, None)
            if not line.running:
                del self._lines[line.key]
            return
        loop = asyncio.get_running_loop()
        due = next(iter(line.members)).arrived + self._wait
        if not line.running or len(line.members) >= self._size or due <= loop.time():
            self._ready[line] = None
        elif line.timer is None:
            line.timer = loop.call_at(due, self._due, line)

    def _due(self, line: Line) -> None:
        line.timer = None
        self._place(line)
        self._send()

    def _send(self) -> None:
        """Let lines leave in turn for as long as there are slots."""
        while self._ready and self._running < self._slots:
            line = next(iter(self._ready))
            del self._ready[line]
            self._leave(line)
            self._place(line)

    def _leave(self, line: Line) -> None:
        batch = Batch(line.take(self._size))
        loop = asyncio.get_running_loop()
        now = loop.time()
        for member in batch.members:
            member.batch = batch
            self._meters.waits.observe(now - member.arrived)
        self._started(line, len(batch.members))
        task = batch.task = loop.create_task(self._run(line, batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _started(self, line: Line, size: int) -> None:
        self._running += 1
        line.running += 1
        self._meters.sizes.observe(size)

    def _ended(self, line: Line) -> None:
        self._running -= 1
        line.running -= 1
        self._place(line)
        self._send()

    def _withdraw(self, line: Line, member: Member) -> None:
        """A caller has been cancelled, or its time is over."""
        batch = member.batch
        if batch is None or batch.waits:
            self._queue.left(member.call.expired)
        if batch is not None:
            batch.left()
            return
        del line.members[member]
        self._place(line)

    async def _run(self, line: Line, batch: Batch) -> None:
        batch.begun = True
        try:
            await self._answer(batch, batch.members)
        except Exception as error:
            logger.error("a batch failed", exc_info=error)
        finally:
            for member in batch.members:
                if member.waits:
                    member.give(
                        InferenceFailed("The batch of this request failed; the server's log says why.")
                    )
            batch.end()
            self._ended(line)

    async def _answer(self, batch: Batch, members: Sequence[Member]) -> None:
        """Run these members as one; where their requests may be to blame, find out whose by running halves."""
        members = [member for member in members if member.waits]
        if not members:
            return
        requests = [member.call.request for member in members]
        answer: InferenceResponse | RowErrors
        try:
            answer = await self._ask(batch, members)
        except RowErrors as error:
            answer = error
        except InferstreamError as error:
            if len(members) == 1 or not _blames_request(error):
                _give_all(members, error)
                return
            half = len(members) // 2
            await self._answer(batch, members[:half])
            await self._answer(batch, members[half:])
            return
        if len(members) == 1:
            members[0].give(answer)
            return
        try:
            answers = deal(answer, requests)
        except InvalidOutput as error:
            logger.error("%s", error)
            _give_all(members, error)
            return
        for member, own in zip(members, answers, strict=True):
            member.give(own)

    async def _ask(self, batch: Batch, members: Sequence[Member]) -> InferenceResponse:
        first = members[0].call
        deadlines = [member.call.deadline for member in members]
        latest = None if None in deadlines else max(deadline for deadline in deadlines if deadline)
        if len(members) == 1:
            request, headers = first.request, first.headers
        else:
            request, headers = merge([member.call.request for member in members], new_id()), {}
        call = MergedCall(Operation.INFER, first.model, first.version, request, headers, deadline=latest)
        batch.call = call
        call.priority = min(member.call.priority for member in members)
        reply = await self._inner(call)
        assert reply.first is not None
        return reply.first


def _blames_request(error: InferstreamError) -> bool:
    """Whether model code raised it, so that a batch without some request might not raise it."""
    return isinstance(error, ModelError) or error.code in (Code.INVALID, Code.INTERNAL)


def _give_all(members: Sequence[Member], error: Exception) -> None:
    for member in members:
        member.give(error)
