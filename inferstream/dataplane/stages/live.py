"""Calls in progress, with deadlines and time limits. Other code can wait for calls or cancel them."""

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
    # Not an `AtEnd`, because its closure costs 0.2 µs per stream.
    __slots__ = ("_call", "_live")

    def __init__(self, live: "Live", call: Call) -> None:
        self._live = live
        self._call = call

    def end(self, error: BaseException | None) -> None:
        self._call.reply = None
        self._live.leave(self._call)


CHECKS_PER_LIMIT = 60
"""Number of checks per time limit. A call exceeds the limit by at most one check interval."""


class Live:
    """Tracks the calls of one model, from arrival to the end of the reply.

    `limit` is the maximum duration of calls with a single response, in seconds. 0 means unlimited. It is
    enforced by periodic checks of all calls, because a timer per call would take a tenth of the time of a
    small request.
    """

    def __init__(self, inner: Handler, limit: float = 0.0) -> None:
        self._inner = inner
        self._limit = limit
        self._unwatched = limit > 0
        """Whether there is a limit and no check is scheduled."""
        self.calls: set[Scope] = set()
        self._emptied: asyncio.Event | None = None

    async def __call__(self, call: Call) -> Reply:
        if call.task is None:
            call.task = asyncio.current_task()
        self.calls.add(call)
        if self._unwatched:
            self._check_limits()
        try:
            reply = await self._inner(call)
        except BaseException as error:  # Including cancellation.
            self.leave(call)
            if call.over(error):
                raise call.take_reason() from None
            raise
        if call.reason is not None:
            # The model swallowed the cancellation, and its response is too late.
            self.leave(call)
            call.over()
            await reply.aclose(call.reason)
            raise call.take_reason()
        call.task = None
        if reply.single:
            self.leave(call)
            return reply
        call.reply = reply
        return reply.watch(LiveStream(self, call))

    async def run(self, awaited: Awaitable[Result]) -> Result:
        """Await `awaited` in the current task, and track it as a call."""
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

    async def wait_until_empty(self) -> None:
        if self.calls:
            if self._emptied is None or self._emptied.is_set():
                self._emptied = asyncio.Event()
            await self._emptied.wait()

    def fail(self, error: Exception) -> None:
        for call in list(self.calls):
            call.end(error)

    def _check_limits(self) -> None:
        """Cancel calls that exceed the limit. If calls remain, schedule the next check."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for call in list(self.calls):
            if isinstance(call, Call) and _has_time_limit(call):
                call.seen = since = getattr(call, "seen", now)
                if now - since >= self._limit:
                    call.end(DeadlineExceeded())
        self._unwatched = not self.calls
        if self.calls:
            loop.call_later(self._limit / CHECKS_PER_LIMIT, _check_again, ref(self))


def _check_again(live: "ref[Live]") -> None:
    if (known := live()) is not None:  # The timer must not keep an unloaded model alive.
        known._check_limits()


class Deadline:
    """Ends each call at its deadline, or after `limit` seconds if that is earlier."""

    def __init__(self, inner: Handler, limit: float | None) -> None:
        self._inner = inner
        self._limit = limit

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if call.deadline is None and self._limit is None:
            return self._inner(call)
        return self._call_with_timeout(call)

    async def _call_with_timeout(self, call: Call) -> Reply:
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
        except BaseException:  # Including cancellation.
            timer.cancel()
            raise
        return reply.watch(AtEnd(lambda _: timer.cancel()))


def time_limit(model: ModelSettings, server: Settings) -> float | None:
    """Return the time limit of all calls, including streams, in seconds.

    Returns None unless a settings file sets one.
    """
    for settings in (model, server):
        if sets_limit(settings):
            return settings.request_timeout or None
    return None


def sets_limit(settings: ModelSettings | Settings) -> bool:
    """Whether a settings file sets or disables the time limit."""
    return "request_timeout" in settings.model_fields_set


def default_time_limit(model: ModelSettings, server: Settings) -> float:
    """Return the default time limit of single responses in seconds. 0 if a settings file sets the limit."""
    return 0.0 if sets_limit(model) or sets_limit(server) else server.request_timeout or 0.0


def _has_time_limit(call: Call) -> bool:
    """Whether the default time limit applies: to a single response that a client waits for.

    Streams are excluded, because they end when their reader stalls. Queued calls by other models are
    included, because they could wait for a slot that their own caller holds.
    """
    if call.dialect == CALL_OF_MODEL and call.waits:
        return True
    return call.operation is INFER and call.dialect not in DOORS
