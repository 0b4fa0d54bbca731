"""`CallGroup`: several calls of one model for one client, and their responses as one reply."""

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

MOST_UNREAD = 8
"""Responses that the calls together may be ahead of their reader."""

MOST_CALLS = 128
"""Calls that run or wait in the model's queue at the same time. The others begin when these end."""

FIRST_WAIT_SECONDS = 0.1
"""How long the first response waits for those of the other calls, which may fail."""


class CallGroup(Reply):
    """Responses of several calls, in the order in which they come. Their ids tell the calls apart.

    The first failure of a call is the failure of all. Leaving `async with` ends every call.
    """

    single = False

    def __init__(self, open_call: Callable[[Operation, InferenceRequest], Awaitable[Reply]]) -> None:
        super().__init__(None)
        self._open_call = open_call
        self._responses: Channel[InferenceResponse] = Channel(MOST_UNREAD)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._replies: dict[str, Reply] = {}
        self._waiting: deque[InferenceRequest] = deque()
        """Requests whose calls have not begun."""
        self._unfinished = self._unopened = 0
        self._readable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, operation: Operation, requests: Sequence[InferenceRequest]) -> Self:
        """Open a call for each request. Raises the first failure, and ends the other calls.

        Does not wait long for calls that begin only after others have ended: those need somebody who reads them.
        """
        for request in requests:
            request.id = request.id or new_id()
        self._operation = operation
        self._unfinished = self._unopened = len(requests)
        self._waiting.extend(requests)
        for _ in range(min(len(requests), MOST_CALLS)):
            self._begin_call()
        try:
            await self._readable
        except BaseException as error:  # a cancel too
            await self.aclose(error)
            raise
        return self

    def leave_call(self, id: str) -> None:
        """End one call as a success, because the client has all that it wants of it."""
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
            # A call that fails after its first response must not cost the reader the responses before it.
            self._start_reading()
        if self._waiting:
            self._begin_call()

    def _start_reading(self) -> None:
        if not self._readable.done():
            self._readable.set_result(None)
