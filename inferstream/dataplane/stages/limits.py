"""Admits so many calls at once, lets so many more wait, and refuses the rest."""

import asyncio
from collections import deque

from ...errors import Overloaded
from ..call import Call
from ..handler import Handler
from ..reply import Reply


class Limits:
    """At most `slots` calls run, at most `queue` more wait in order; a stream holds its slot to its end."""

    def __init__(self, inner: Handler, slots: int, queue: int) -> None:
        self._inner = inner
        self._free = slots
        self._queue = queue
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Calls in the queue."""
        return len(self._waiting)

    async def __call__(self, call: Call) -> Reply:
        if self._free and not self._waiting:
            self._free -= 1
        else:
            await self._wait(call.model)
        try:
            reply = await self._inner(call)
        except BaseException:
            self._release()
            raise
        return reply.watch(self._release)

    async def _wait(self, model: str) -> None:
        if len(self._waiting) >= self._queue:
            raise Overloaded(f"Model {model} is overloaded: {self._queue} calls are waiting already.")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            else:
                self._waiting.remove(turn)
            raise

    def _release(self, _: BaseException | None = None) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
