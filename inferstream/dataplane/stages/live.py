"""Calls in progress: other code waits for them or ends them, and their deadlines and time limits do."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar
from weakref import ref

from ...concurrency.scope import Scope
from ...errors import DeadlineExceeded
from ...settings import ModelSettings, Settings
from ..call import CALL_OF_MODEL, INFER, Call, Handler
from ..caller import DOORS
from ..reply import AtEnd, Reply, Watcher

Result = TypeVar("Result")


class LiveStream(Watcher):
    # Not an `AtEnd`: every stream has one, and a closure would cost it 0.2 µs.
    __slots__ = ("_call", "_live")

    def __init__(self, live: "Live", call: Call) -> None:
        self._live = live
        self._call = call

    def end(self, error: BaseException | None) -> None:
        self._call.reply = None
        self._live.leave(self._call)


LOOKS = 60
"""Looks at the calls in the time of the limit. A call ends at most one sixtieth of it late."""


class Live:
    """The calls of one model, from their arrival to the end of their reply.

    `limit` is the time in seconds of a call with one response; 0 for any time. A look at all calls now and then
    applies it, because a timer for each call would cost a tenth of a small request.
    """

    def __init__(self, inner: Handler, limit: float = 0.0) -> None:
        self._inner = inner
        self._limit = limit
        self._unwatched = limit > 0
        """Whether calls are limited, and no look at them is due."""
        self.calls: set[Scope] = set()
        self._emptied: asyncio.Event | None = None

    async def __call__(self, call: Call) -> Reply:
        if call.task is None:
            call.task = asyncio.current_task()
        self.calls.add(call)
        if self._unwatched:
            self._look()
        try:
            reply = await self._inner(call)
        except BaseException as error:  # a cancelled call has ended too
            self.leave(call)
            if call.over(error):
                raise call.taken() from None
            raise
        if call.reason is not None:
            # Ended from outside, but the model swallowed the cancel: its response is too late.
            self.leave(call)
            call.over()
            await reply.aclose(call.reason)
            raise call.taken()
        call.task = None
        if reply.single:
            self.leave(call)
            return reply
        call.reply = reply
        return reply.watch(LiveStream(self, call))

    async def run(self, awaited: Awaitable[Result]) -> Result:
        """Run other work of the current task that is tracked as a call."""
        with Scope(asyncio.current_task()) as work:
            self.calls.add(work)
            try:
                return await awaited
            finally:
                self.leave(work)

    def leave(self, call: Scope) -> None:
        self.calls.discard(call)
        if self._emptied is not None and not self.calls:
            self._emptied.set()

    async def emptied(self) -> None:
        if self.calls:
            if self._emptied is None or self._emptied.is_set():
                self._emptied = asyncio.Event()
            await self._emptied.wait()

    def fail(self, error: Exception) -> None:
        for call in list(self.calls):
            call.end(error)

    def _look(self) -> None:
        """End calls beyond the limit, and look again while there are others."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for call in list(self.calls):
            if isinstance(call, Call) and _is_limited(call):
                call.seen = since = getattr(call, "seen", now)
                if now - since >= self._limit:
                    call.end(DeadlineExceeded())
        self._unwatched = not self.calls
        if self.calls:
            loop.call_later(self._limit / LOOKS, _look_again, ref(self))


def _look_again(live: "ref[Live]") -> None:
    if (known := live()) is not None:  # the timer keeps no unloaded model in memory
        known._look()


class Deadline:
    """Sets one timer for each call with a deadline or a time limit (seconds) from the settings."""

    def __init__(self, inner: Handler, limit: float | None) -> None:
        self._inner = inner
        self._limit = limit

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if call.deadline is None and self._limit is None:
            return self._inner(call)
        return self._timed(call)

    async def _timed(self, call: Call) -> Reply:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._limit is not None:
            call.deadline = min(call.deadline or now + self._limit, now + self._limit)
        assert call.deadline is not None
        if call.deadline <= now:
            raise DeadlineExceeded
        timer = loop.call_at(call.deadline, call.end, DeadlineExceeded())
        try:
            reply = await self._inner(call)
        except BaseException:  # a cancelled call too
            timer.cancel()
            raise
        return reply.watch(AtEnd(lambda _: timer.cancel()))


def limit_of(model: ModelSettings, server: Settings) -> float | None:
    """Seconds that each call of a model may take, its streams too; None unless a settings file says so."""
    for settings in (model, server):
        if says_limit(settings):
            return settings.request_timeout or None
    return None


def says_limit(settings: ModelSettings | Settings) -> bool:
    """Whether the settings state a time limit, or that there is none."""
    return "request_timeout" in settings.model_fields_set


def default_limit_of(model: ModelSettings, server: Settings) -> float:
    """Seconds that single responses may take where no settings file states a limit; 0 for any time."""
    return 0.0 if says_limit(model) or says_limit(server) else server.request_timeout or 0.0


def _is_limited(call: Call) -> bool:
    """Whether it is an inference with one response for a client that waits: a stream ends when its reader stalls.

    A call by another model that waits in a queue is one too: it could wait for a slot that its own caller holds.
    """
    if call.dialect == CALL_OF_MODEL and call.waits:
        return True
    return call.operation is INFER and call.dialect not in DOORS
