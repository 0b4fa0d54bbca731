"""Load generation, with a fixed number of clients or at a fixed rate."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from time import perf_counter  # uvloop's clock has a resolution of a millisecond
from typing import Protocol

from inferstream.errors import CallFailed

from .figures import Seen

MAX_FAILURES = 50
"""Maximum number of distinct failure reasons. Additional ones are counted together."""

ItemCame = Callable[[int], None]
"""A callback for the number of stream items that have just arrived."""


class BenchClient(Protocol):
    """Calls one model, one call at a time."""

    async def call(self, came: ItemCame) -> None:
        """Make one call and read the whole response. Raises CallFailed with a short reason."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The shape and duration of a load.

    With `rate` (open loop), calls start at this rate per second, even if earlier ones are still running, with
    at most `callers` in progress. Otherwise (closed loop), each of `callers` starts its next call when the
    previous one ends. The measurement lasts `seconds`, after `warmup` seconds.
    """

    callers: int
    rate: float | None
    seconds: float
    warmup: float


class LoadRun:
    """One run of a plan. The measurements are in `seen`."""

    def __init__(self, plan: Plan, connect: Callable[[], BenchClient]) -> None:
        self._plan = plan
        self._connect = connect
        self.seen = Seen()

    async def run(self) -> Seen:
        """Run the load. Returns when the last call that started in time has ended."""
        plan, seen = self._plan, self.seen
        callers = [self._connect() for _ in range(plan.callers)]
        start = perf_counter()
        seen.began, seen.ended = start + plan.warmup, start + plan.warmup + plan.seconds
        try:
            async with asyncio.TaskGroup() as group:
                if plan.rate is None:
                    for caller in callers:
                        group.create_task(self._run_closed_loop(caller))
                else:
                    group.create_task(self._run_open_loop(plan.rate, start, callers, group))
        finally:
            for caller in callers:
                await caller.aclose()
        seen.ended = max(seen.ended, perf_counter())
        return seen

    async def _run_closed_loop(self, caller: BenchClient) -> None:
        while (now := perf_counter()) < self.seen.ended:
            if not await self._call(caller, now):
                await asyncio.sleep(0.01)  # Slows down the calls to a server that rejects them.

    async def _run_open_loop(
        self, rate: float, start: float, callers: list[BenchClient], group: asyncio.TaskGroup
    ) -> None:
        idle: asyncio.LifoQueue[BenchClient] = asyncio.LifoQueue()
        for caller in callers:
            idle.put_nowait(caller)

        async def call(caller: BenchClient, due: float) -> None:
            await self._call(caller, due)
            idle.put_nowait(caller)

        for number in count():
            due = start + number / rate
            if due >= self.seen.ended:
                return
            if (wait := due - perf_counter()) > 0:
                await asyncio.sleep(wait)
            self.seen.due += due >= self.seen.began
            caller = await idle.get()
            if perf_counter() >= self.seen.ended:
                self.seen.due = round(rate * self._plan.seconds)
                return
            group.create_task(call(caller, due))

    async def _call(self, caller: BenchClient, began: float) -> bool:
        """Make one call. Returns False if it failed.

        The latency is measured from the time at which the call was due, so it includes a delayed start.
        """
        items = Items(perf_counter, began)
        try:
            await caller.call(items.record)
        except CallFailed as error:
            self._count_failure(error.message, began)
            return False
        ended = perf_counter()
        seen = self.seen
        if began >= seen.began:
            seen.latencies.append(ended - began)
            if items.count:
                seen.items += items.count
                seen.firsts.append(items.first)
                seen.gaps.extend(items.gaps)
        return True

    def _count_failure(self, reason: str, began: float) -> None:
        seen = self.seen
        if began >= seen.began:
            known = reason in seen.failures or len(seen.failures) < MAX_FAILURES
            seen.failures[reason if known else "others"] += 1


class Items:
    """Arrival times of the items of one stream in seconds: from the start of the call, and between items."""

    __slots__ = ("_clock", "_last", "count", "first", "gaps")

    def __init__(self, clock: Callable[[], float], began: float) -> None:
        self._clock = clock
        self._last = began
        self.count = 0
        self.first = 0.0
        self.gaps: list[float] = []

    def record(self, items: int) -> None:
        """Record `items` that arrived together."""
        now = self._clock()
        if self.count:
            self.gaps.append(now - self._last)
        else:
            self.first = now - self._last
        self.gaps.extend([0.0] * (items - 1))
        self.count += items
        self._last = now
