"""`SeveralReplies`: the replies of several calls of one client as one."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Self

from ..types import InferenceResponse
from .admission import Admission
from .call import Call
from .reply import Reply

AHEAD = 8
"""Responses that the calls together may be ahead of their reader."""


class SeveralReplies(Reply):
    """Responses of several calls of one model, in the order in which they come. Their ids tell the calls apart.

    The first failure of a call is the failure of all. Leaving `async with` ends every call.
    """

    __slots__ = ("_admission", "_arrived", "_places", "_running", "_tasks")

    single = False

    def __init__(self, admission: Admission) -> None:
        super().__init__(None)
        self._admission = admission
        self._places = asyncio.Semaphore(AHEAD)
        self._arrived: asyncio.Queue[InferenceResponse | BaseException | None] = asyncio.Queue()
        """Responses, and for each call that has ended its failure or None."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = 0

    async def open(self, calls: Sequence[Call]) -> Self:
        """Open all calls at the same time. Raises the first failure, and ends the other calls."""
        loop = asyncio.get_running_loop()
        openings: list[asyncio.Future[None]] = []
        for call in calls:
            opened: asyncio.Future[None] = loop.create_future()
            openings.append(opened)
            task = loop.create_task(self._run(call, opened))
            task.add_done_callback(partial(self._ended, opened))
            self._tasks[str(call.request.id)] = task
        self._running = len(calls)
        try:
            await asyncio.gather(*openings)
        except BaseException:
            await self.aclose(None)
            raise
        return self

    async def _run(self, call: Call, opened: asyncio.Future[None]) -> None:
        call.task = asyncio.current_task()
        async with await self._admission.open(call) as reply:
            if not opened.done():
                opened.set_result(None)
            async for response in reply:
                await self._places.acquire()
                self._arrived.put_nowait(response)

    def _ended(self, opened: asyncio.Future[None], task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if opened.done():
            self._arrived.put_nowait(error)
        elif error is not None:
            opened.set_exception(error)
        else:
            opened.cancel()

    def leave(self, id: str) -> None:
        """End one call, because the client has all that it wants of it."""
        self._tasks[id].cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InferenceResponse:
        while self._running:
            found = await self._arrived.get()
            if isinstance(found, InferenceResponse):
                self._places.release()
                return found
            if found is not None:
                raise found
            self._running -= 1
        raise StopAsyncIteration

    async def aclose(self, error: BaseException | None) -> None:
        tasks = [task for task in self._tasks.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def __aexit__(self, *_: object) -> None:
        await self.aclose(None)
