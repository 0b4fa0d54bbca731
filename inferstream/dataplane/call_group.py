"""`CallGroup`: several calls of one client to a model, with a single combined reply."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Self

from ..concurrency.channel import Channel
from ..concurrency.scope import ClientLeft, Scope
from ..errors import Abandoned
from ..types import InferenceRequest, InferenceResponse
from .call import Operation, new_id
from .reply import Reply

MAX_UNREAD = 8
"""Maximum number of responses that are buffered for the reader, over all calls."""

MAX_CALLS = 128
"""Maximum number of calls that run or are queued at the same time. The others start as calls finish."""

FIRST_WAIT_SECONDS = 0.1
"""How long the first response is held back, so that an early failure of another call can still be raised."""


class CallGroup(Reply):
    """Responses of several calls, in order of arrival. Each response has the id of its call.

    If one call fails, the group fails. Leaving `async with` cancels the calls that are still running.
    """

    single = False

    def __init__(self, open_call: Callable[[Operation, InferenceRequest], Awaitable[Reply]]) -> None:
        super().__init__(None)
        self._open_call = open_call
        self._responses: Channel[InferenceResponse] = Channel(MAX_UNREAD)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._replies: dict[str, Reply] = {}
        self._waiting: deque[InferenceRequest] = deque()
        """Requests whose calls have not started."""
        self._unfinished = self._unopened = 0
        self._readable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, operation: Operation, requests: Sequence[InferenceRequest]) -> Self:
        """Open a call for each request. If a call fails, raises its error and cancels the others.

        Does not wait for calls above the limit `MAX_CALLS`, because they start only while the reply is read.
        """
        for request in requests:
            request.id = request.id or new_id()
        self._operation = operation
        self._unfinished = self._unopened = len(requests)
        self._waiting.extend(requests)
        for _ in range(min(len(requests), MAX_CALLS)):
            self._begin_call()
        try:
            await self._readable
        except BaseException as error:  # Including cancellation.
            await self.aclose(error)
            raise
        return self

    def leave_call(self, id: str) -> None:
        """End one call and count it as a success, because the client needs no more responses."""
        if (reply := self._replies.get(id)) is not None:
            reply.leave()
        Scope(self._tasks[id]).end(ClientLeft())

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, InferenceResponse]:
        return self._responses.__anext__()

    async def aclose(self, error: BaseException | None) -> None:
        self._waiting.clear()
        running = [(id, task) for id, task in self._tasks.items() if not task.done()]
        for id, task in running:
            if error is None and id in self._replies:
                self._replies[id].leave()
            Scope(task).end(ClientLeft())
        if running:
            await asyncio.wait([task for _, task in running])

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.aclose(error or Abandoned())

    def _begin_call(self) -> None:
        request = self._waiting.popleft()
        id = str(request.id)
        task = self._tasks[id] = asyncio.create_task(self._run_call(id, request))
        task.add_done_callback(partial(self._end_call, id))

    async def _run_call(self, id: str, request: InferenceRequest) -> None:
        async with await self._open_call(self._operation, request) as reply:
            self._replies[id] = reply
            self._unopened -= 1
            if not self._unopened:
                self._start_reading()
            elif len(self._replies) == 1:
                asyncio.get_running_loop().call_later(FIRST_WAIT_SECONDS, self._start_reading)
            async for response in reply:
                if not self._responses.has_room():
                    self._start_reading()
                await self._responses.room()
                self._responses.put(response)

    def _end_call(self, id: str, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and id not in self._replies and not self._readable.done():
            self._readable.set_exception(error)
        self._unfinished -= 1
        if error is not None or not self._unfinished:
            self._responses.end(error)
        if error is not None:
            # The reader must still receive the responses that preceded the failure.
            self._start_reading()
        if self._waiting:
            self._begin_call()

    def _start_reading(self) -> None:
        if not self._readable.done():
            self._readable.set_result(None)
