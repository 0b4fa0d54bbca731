"""A call that runs in a worker, as seen by the server."""

import asyncio
from collections.abc import Callable

from ...concurrency.channel import Channel
from ...context import request_id_var
from ...errors import InferstreamError, InvalidRequest
from ...processes.frames import UNENCODABLE, pack_failure
from ...processes.link import Link
from ...processes.shared_memory import Outgoing
from ...types import InferenceRequest, InferenceResponse
from ..call import Call, Operation
from ..call_values import pack_values
from ..reply import Reply, StreamReply
from .frames import Cancel, Credit, Full, More, Open, Wanted
from .packing import pack_request, places_in

CLOSE_LIMIT = 5.0
"""Time that a caller waits for a model's `finally` blocks, in seconds."""

OVERDUE = 1.0
"""Time after its limit, in seconds, at which a call that is still running counts as hung."""

ABANDONED = 30.0
"""Time that a call without a caller may continue in its worker, in seconds."""


class RemoteCall(Channel[InferenceResponse]):
    """Receives the responses of a call, and is the iterator of its stream.

    `window` is the maximum number of responses that are buffered here. `hung` is called if the call is still
    running in the worker after it was cancelled: `ABANDONED` seconds later, or `OVERDUE` seconds after its
    time limit, whichever is first.
    """

    cancelled = False
    # Class attributes, because most calls never change them, and assigning them takes a tenth of the time of
    # a small request.
    _feeding: asyncio.Task[None] | None = None
    _overdue: asyncio.TimerHandle | None = None
    _single = False
    _unpaid = 0
    """Number of consumed responses that have not been credited to the worker yet."""
    _wanted: asyncio.Semaphore | None = None
    _watched = True
    _worker_waits = False

    def __init__(
        self, number: int, call: Call, window: int, limit: float | None, hung: Callable[[], None], link: Link
    ) -> None:
        super().__init__(window)
        self.number = number
        self.request_id = call.request.id
        self._call = call
        self._link = link
        self._limit = limit
        self._hung = hung
        self._opened = self._loop.time()

    def send(self, instance: int, arena: Outgoing) -> None:
        """Send the call to the worker. Raises the errors of packing and encoding."""
        call = self._call
        remaining = None if call.deadline is None else call.deadline - self._opened
        stream, more = call.operation is Operation.STREAM, call.more is not None
        request = pack_request(call.request, arena)
        try:
            self._link.send(
                Open(
                    self.number,
                    instance,
                    stream,
                    self._bound,
                    more,
                    remaining,
                    call.priority,
                    request,
                    call.trace,
                    request_id_var.get(),
                    call.halved,
                    pack_values(call) if hasattr(call, "values") else None,
                    call.principal,
                )
            )
        except UNENCODABLE:
            arena.free(places_in(request.inputs))
            raise
        if more:
            self._wanted = asyncio.Semaphore(0)
            self._feeding = self._loop.create_task(self._send_requests(call, arena, self._wanted))

    async def wait_for_reply(self) -> Reply:
        """Return the reply, once its first response exists. Raises the model's error, or WorkerLost."""
        try:
            while self.open and not self._items:
                await self.news()
        except BaseException:  # Including cancellation.
            self.cancel()
            raise
        if self._single:
            return Reply(self._items.popleft())
        if self._items:
            return StreamReply(self.pop(), self)
        if self._error is not None:
            raise self._end()
        return StreamReply(None, self)

    def _after_take(self) -> None:
        self._unpaid += 1
        if self._unpaid * 2 >= self._bound or (self._worker_waits and not self._items):
            self._give_credit()

    def _give_credit(self) -> None:
        self._worker_waits = False
        if self.open and not self.cancelled:
            self._link.send(Credit(self.number, self._unpaid))
            self._unpaid = 0

    def handle_full(self, _: Full) -> None:
        """Grant credit to a worker whose window is full. A few large responses can fill it."""
        self._worker_waits = True
        if self._unpaid and not self._items:
            self._give_credit()

    async def aclose(self) -> None:
        """Close the model's generator, and wait for its `finally` blocks for up to `CLOSE_LIMIT` seconds."""
        self._items.clear()
        if not self.open:
            return
        self.cancel()
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                while self.open:
                    await self.news()
        except TimeoutError:
            return

    def cancel(self) -> None:
        """Cancel the call in the worker, which reports the end."""
        if self.cancelled or not self.open:
            return
        self.cancelled = True
        self._link.send(Cancel(self.number, self._call.expired))
        if self._feeding is not None:
            self._feeding.cancel()
        overdue = self._loop.time() + ABANDONED
        if self._limit is not None:
            overdue = min(overdue, self._opened + self._limit + OVERDUE)
        self._overdue = self._loop.call_at(overdue, self._hung)

    def receive(self, response: InferenceResponse, last: bool) -> None:
        if last:
            self._single = True
            self._items.append(response)
            self.finish()
        elif not self.cancelled:
            self.put(response)

    def finish(self, error: InferstreamError | None = None) -> None:
        """End the call, because it has left the worker."""
        self.end(error)
        if self._feeding is not None:
            self._feeding.cancel()
        if self._overdue is not None:
            self._overdue.cancel()

    def request_more(self, frame: Wanted) -> None:
        """Let `_send_requests` send `frame.count` more requests, because the model needs them."""
        if self._wanted is not None:
            for _ in range(frame.count):
                self._wanted.release()

    async def _send_requests(self, call: Call, arena: Outgoing, wanted: asyncio.Semaphore) -> None:
        """Send the later requests as the model needs them, followed by their end or an error."""
        assert call.more is not None
        try:
            while True:
                await wanted.acquire()
                self._send_more(await anext(call.more), arena)
        except StopAsyncIteration:
            self._link.send(More(self.number, None))
        except InferstreamError as error:
            self._link.send(More(self.number, None, pack_failure(error)))

    def _send_more(self, request: InferenceRequest, arena: Outgoing) -> None:
        packed = pack_request(request, arena)
        try:
            self._link.send(More(self.number, packed))
        except UNENCODABLE as error:
            arena.free(places_in(packed.inputs))
            raise InvalidRequest(f"the request cannot be sent to a worker: {error}") from error
