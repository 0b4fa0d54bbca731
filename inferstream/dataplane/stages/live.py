"""Tracks the calls in progress, so that other code can wait for them or end them."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from ...concurrency.scope import Scope
from ..call import Call
from ..handler import Handler
from ..reply import Reply, Watcher
from .base import Pipeline, Shared

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


class Live:
    """The calls of one model, from their arrival to the end of their reply."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner
        self.calls: set[Scope] = set()
        self._emptied: asyncio.Event | None = None

    async def __call__(self, call: Call) -> Reply:
        if call.task is None:
            call.task = asyncio.current_task()
        self.calls.add(call)
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


def live(model: Pipeline, shared: Shared) -> Pipeline:
    handler = Live(model.handler)
    shared.long_calls.watch(handler, model.settings)
    return replace(model, handler=handler, live=handler)
