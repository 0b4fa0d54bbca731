"""One call that runs in a worker, for the server."""

import asyncio
from collections import deque
from collections.abc import Callable

from ...context import request_id_var
from ...errors import InferstreamError, InvalidRequest
from ...processes.frames import UNENCODABLE, pack_failure
from ...processes.link import Link
from ...processes.shared_memory import Outgoing
from ...types import InferenceRequest, InferenceResponse
from ..call import Call, Operation
from ..reply import Reply, StreamReply
from .frames import Cancel, Credit, More, Open
from .packing import pack_request, places_in

CLOSE_LIMIT = 5.0
"""Seconds that a caller waits for a model's `finally`."""

OVERDUE = 1.0
"""Seconds after its time limit at which a call that still runs counts as hung."""

ABANDONED = 30.0
"""Seconds that a call without a caller may run on in its worker."""


class RemoteCall:
    """Receives the responses of a call, and is the iterator of its stream.

    `window` bounds the responses that wait here. `hung` is called when the call runs on in the worker after its cancel:
    long after that, or soon after its `limit` of seconds.
    """

    cancelled = False
    # Class attributes, because most calls never change them: setting them would cost a tenth of a small request.
    _error: Exception | None = None
    _feeding: asyncio.Task[None] | None = None
    _over = False
    _overdue: asyncio.TimerHandle | None = None
    _reader: asyncio.Future[None] | None = None
    _single = False
    _taken = 0
    _wanted: asyncio.Semaphore | None = None
    _worker_waits = False

    def __init__(
        self, number: int, call: Call, window: int, limit: float | None, hung: Callable[[], None], link: Link
    ) -> None:
        self.number = number
        self.request_id = call.request.id
        self._call = call
        self._link = link
        self._window = window
        self._limit = limit
        self._hung = hung
        self._loop = loop = asyncio.get_running_loop()
        self._opened = loop.time()
        self._responses: deque[InferenceResponse] = deque()

    def send(self, instance: int, arena: Outgoing) -> None:
        """Send the call to the worker. Raises the errors of packing and encoding."""
        call = self._call
        remaining = None if call.deadline is None else call.deadline - self._opened
        stream, more = call.operation is Operation.STREAM, call.more is not None
        request = pack_request(call.request, arena.put)
        try:
            self._link.send(
                Open(
                    self.number,
                    instance,
                    stream,
                    self._window,
                    more,
                    remaining,
                    call.priority,
                    request,
                    call.trace,
                    request_id_var.get(),
                    call.halved,
                )
            )
        except UNENCODABLE:
            arena.free(places_in(request.inputs))
            raise
        if more:
            self._wanted = asyncio.Semaphore(0)
            self._feeding = self._loop.create_task(self._feed(call, arena, self._wanted))

    async def opened(self) -> Reply:
        """The reply, when its first response exists. Raises the model's error, or WorkerLost."""
        try:
            await self._something()
        except BaseException:  # a cancelled call too
            self.cancel()
            raise
        if self._single:
            return Reply(self._responses.popleft())
        if self._responses:
            return StreamReply(self._take(), self)
        if self._error is not None:
            raise self._taken_error()
        return StreamReply(None, self)

    async def __anext__(self) -> InferenceResponse:
        if not self._responses:
            await self._something()
            if not self._responses:
                raise self._taken_error()
        return self._take()

    def _taken_error(self) -> Exception:
        """The end, to raise it. A stored error would keep its frames alive, and these the call."""
        error, self._error = self._error, None
        return error or StopAsyncIteration()

    def _take(self) -> InferenceResponse:
        response = self._responses.popleft()
        self._taken += 1
        if self._taken * 2 >= self._window or (self._worker_waits and not self._responses):
            self._give_credit()
        return response

    def _give_credit(self) -> None:
        self._worker_waits = False
        if not self._over and not self.cancelled:
            self._link.send(Credit(self.number, self._taken))
            self._taken = 0

    def full(self) -> None:
        """The worker waits until responses are taken. A few large responses can fill its window."""
        self._worker_waits = True
        if self._taken and not self._responses:
            self._give_credit()

    async def _something(self) -> None:
        while not self._responses and not self._over:
            # Not a `Wakeup`, which would cost each small request half a microsecond.
            self._reader = self._loop.create_future()
            await self._reader

    async def aclose(self) -> None:
        """Close the model's generator, and wait for its `finally` for at most `CLOSE_LIMIT` seconds."""
        self._responses.clear()
        if self._over:
            return
        self.cancel()
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                await self._something()
        except TimeoutError:
            return

    def cancel(self) -> None:
        """Cancel the call in the worker, which reports the end."""
        if self._over or self.cancelled:
            return
        self.cancelled = True
        self._link.send(Cancel(self.number, self._call.expired))
        if self._feeding is not None:
            self._feeding.cancel()
        overdue = self._loop.time() + ABANDONED
        if self._limit is not None:
            overdue = min(overdue, self._opened + self._limit + OVERDUE)
        self._overdue = self._loop.call_at(overdue, self._hung)

    def came(self, response: InferenceResponse) -> None:
        if not self.cancelled:
            self._responses.append(response)
            self._wake()

    def completed(self, response: InferenceResponse) -> None:
        self._single = True
        self._responses.append(response)
        self.ended()

    def lingers(self) -> None:
        """No more responses come, but the model still occupies a thread. If it does so too long, it hangs."""
        self._over = True
        self._wake()

    def ended(self, error: InferstreamError | None = None) -> None:
        self._over = True
        self._error = error
        if self._feeding is not None:
            self._feeding.cancel()
        if self._overdue is not None:
            self._overdue.cancel()
        self._wake()

    def wanted(self, count: int) -> None:
        if self._wanted is not None:
            for _ in range(count):
                self._wanted.release()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def _feed(self, call: Call, arena: Outgoing, wanted: asyncio.Semaphore) -> None:
        """Send the later requests when the model needs them, and then their end or error."""
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
        packed = pack_request(request, arena.put)
        try:
            self._link.send(More(self.number, packed))
        except UNENCODABLE as error:
            arena.free(places_in(packed.inputs))
            raise InvalidRequest(f"the request cannot be sent to a worker: {error}") from error
