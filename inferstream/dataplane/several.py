"""`SeveralReplies`: the replies of several calls of one client as one."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Self

from inferstream.ext.calls import Admission, CancelScope, Channel, ClientLeft, Operation, Reply, new_id

from ..errors import Abandoned
from ..types import InferenceRequest, InferenceResponse

AHEAD = 8
"""Responses that the calls together may be ahead of their reader."""

AT_ONCE = 128
"""Calls that run or wait in the model's queue at the same time. The others begin when these end."""

TOGETHER = 0.1
"""Seconds that the first response waits for the first ones of the other calls, which may fail."""


class SeveralReplies(Reply):
    """Responses of several calls of one model, in the order in which they come. Their ids tell the calls apart.

    The first failure of a call is the failure of all. Leaving `async with` ends every call.
    """

    single = False

    def __init__(self, admission: Admission) -> None:
        super().__init__(None)
        self._admission = admission
        self._arrived: Channel[InferenceResponse] = Channel(AHEAD)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._replies: dict[str, Reply] = {}
        self._unbegun: deque[InferenceRequest] = deque()
        self._running = self._unopened = 0
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the responses can be read."""

    async def open(self, operation: Operation, requests: Sequence[InferenceRequest]) -> Self:
        """Open a call for each request. Raises the first failure, and ends the other calls.

        Does not wait long for calls that begin only after others have ended: those need somebody who reads them.
        """
        for request in requests:
            request.id = request.id or new_id()
        self._admission.caller.task = None  # each call has a task of its own
        self._operation = operation
        self._running = self._unopened = len(requests)
        self._unbegun.extend(requests)
        for _ in range(min(len(requests), AT_ONCE)):
            self._begin()
        try:
            await self._opened
        except BaseException as error:  # a cancel too
            await self.aclose(error)
            raise
        return self

    def _begin(self) -> None:
        request = self._unbegun.popleft()
        id = str(request.id)
        task = self._tasks[id] = asyncio.create_task(self._run(id, request))
        task.add_done_callback(partial(self._ended, id))

    async def _run(self, id: str, request: InferenceRequest) -> None:
        async with await self._admission.open(self._operation, request) as reply:
            self._replies[id] = reply
            self._unopened -= 1
            if not self._unopened:
                self._readable()
            elif len(self._replies) == 1:
                asyncio.get_running_loop().call_later(TOGETHER, self._readable)
            async for response in reply:
                if not self._arrived.has_room():
                    self._readable()
                await self._arrived.room()
                self._arrived.put(response)

    def _readable(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _ended(self, id: str, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and id not in self._replies and not self._opened.done():
            self._opened.set_exception(error)
        self._running -= 1
        if error is not None or not self._running:
            self._arrived.end(error)
        if error is not None:
            # A call that fails after its first response must not cost the reader the responses before it.
            self._readable()
        if self._unbegun:
            self._begin()

    def leave_one(self, id: str) -> None:
        """End one call as a success, because the client has all that it wants of it."""
        if (reply := self._replies.get(id)) is not None:
            reply.leave()
        CancelScope(self._tasks[id]).end(ClientLeft())

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, InferenceResponse]:
        return self._arrived.__anext__()

    async def aclose(self, error: BaseException | None) -> None:
        self._unbegun.clear()
        running = [(id, task) for id, task in self._tasks.items() if not task.done()]
        for id, task in running:
            if error is None and id in self._replies:
                self._replies[id].leave()
            CancelScope(task).end(ClientLeft())
        if running:
            await asyncio.wait([task for _, task in running])

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.aclose(error or Abandoned())
