"""An event loop with a virtual clock. A seed decides all that asyncio leaves open."""

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any

RESOLUTION = 0.001
"""Seconds by which timers may fire out of order: uvloop's timers count milliseconds."""

SECONDS = (0.0, 0.0, 0.001, 0.004, 0.02)
"""What a thread may take for one function."""

MOST = 50_000
"""Callbacks after which a schedule counts as one that never ends."""


class Stuck(AssertionError):
    """Nothing is left to do, or there is no end of it, and a task still waits."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Time jumps to the next timer when nothing is ready, and now and then passes in a callback.

    `call_soon` keeps its order, which asyncio promises. Open are the order of timers that are due together, the
    lateness of timers, and where `outside` (a thread, another process, a socket) comes between two callbacks.
    """

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._now = 1000.0
        self._clock_resolution = RESOLUTION
        self._outside: list[tuple[float, float, events.Handle]] = []
        self._at_steps: dict[int, list[Callable[[], object]]] = {}
        self.steps = 0
        """Callbacks so far."""
        self.turns = 0
        """Turns of the loop so far."""
        self.failures: list[dict[str, Any]] = []
        """What the loop would have logged: errors that nobody retrieved."""
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        return self._now

    def outside(self, delay: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Call this after so many seconds, between any two callbacks."""
        handle = events.Handle(callback, arguments, self)
        heapq.heappush(self._outside, (self._now + delay, self._random.random(), handle))

    def at_step(self, step: int, callback: Callable[[], object]) -> None:
        """Make this ready after the callback of this number."""
        self._at_steps.setdefault(step, []).append(callback)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> events.Handle:
        return self.call_soon(callback, *arguments, context=context)

    def run_in_executor(
        self, executor: Any, function: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()

        def run() -> None:
            if not done.done():
                try:
                    done.set_result(function(*arguments))
                except Exception as error:
                    done.set_exception(error)

        self.outside(self._random.choice((0.0, 0.001)), run)
        return done

    def _run_once(self) -> None:
        self.turns += 1
        if not self._ready:
            self._jump()
        self._fire()
        ready, random, steps = self._ready, self._random.random, self._at_steps
        for _ in range(len(ready)):
            if self._outside and self._outside[0][0] <= self._now:
                ready.append(heapq.heappop(self._outside)[2])
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
            del handle  # frames of a traceback refer to their callers' frames, to this one too
            self.steps += 1
            if self.steps in steps:
                for callback in steps.pop(self.steps):
                    self.call_soon(callback)
            if random() < 0.02:
                self._now += 0.004 * random()
        if self.steps > MOST:
            raise Stuck(f"no end after {MOST} callbacks")

    def _jump(self) -> None:
        """Nothing is ready, so time passes until something is."""
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False
        due = [timers[0]._when] if timers else []
        if self._outside:
            due.append(self._outside[0][0])
        if not due:
            if self._at_steps:  # a step that never comes
                for callback in self._at_steps.pop(min(self._at_steps)):
                    self.call_soon(callback)
                return
            if not self._stopping:
                raise Stuck("nothing is left to do")
            return
        self._now = max(self._now, min(due))

    def _fire(self) -> None:
        """Make ready what is due. Timers of one millisecond have no order among each other."""
        due: list[tuple[float, events.Handle]] = []
        while self._outside and self._outside[0][0] <= self._now:
            due.append((self._random.random(), heapq.heappop(self._outside)[2]))
        timers = self._scheduled
        limit = self._now + (RESOLUTION if self._random.random() < 0.5 else 0.0)
        while timers and timers[0]._when <= limit:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                due.append((self._random.random(), timer))
        if len(due) > 1:
            due.sort(key=lambda entry: entry[0])
        self._ready.extend(handle for _, handle in due)

    def settle(self) -> None:
        """Run until nothing is ready and no timer is left, whatever time it takes."""
        try:
            while self._ready or self._scheduled or self._outside:
                self._idle_once()
        finally:
            self._at_steps.clear()

    def _idle_once(self) -> None:
        events._set_running_loop(self)
        self._thread_id = 0
        try:
            self._stopping = True  # nothing left is no error here
            self._run_once()
        finally:
            self._stopping = False
            self._thread_id = None
            events._set_running_loop(None)

    def _process_events(self, event_list: object) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There are no threads."""
