"""Threads without threads: the virtual loop runs what they would, when their seconds have passed."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextvars import Context
from random import Random
from typing import Any

from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.execution.method_caller import MethodCaller, Outcome, _call_each, _set_result

from .loop import SECONDS, VirtualLoop


class VirtualThreads(Executor):
    def __init__(self, loop: VirtualLoop, random: Random, count: int) -> None:
        self._loop = loop
        self._random = random
        self._free = count
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: function(*arguments, **named)))
        self._next()
        return future

    def _next(self) -> None:
        while self._free and self._waiting:
            future, function = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                self._free -= 1
                self._loop.outside(self._random.choice(SECONDS), self._run, future, function)

    def _run(self, future: Future[Any], function: Callable[[], Any]) -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
        del future, function  # as a thread does, because a traceback refers to this frame
        self._free += 1
        self._next()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while cancel_futures and self._waiting:
            self._waiting.popleft()[0].cancel()


class VirtualCaller(MethodCaller):
    """Calls the methods of a model with steps that are `def`."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        super().__init__("steps")
        self._loop = loop
        self._random = random

    async def _in_thread(
        self, method: Callable[[Any], Any], arguments: Sequence[tuple[Any, Context]]
    ) -> list[Outcome]:
        done: asyncio.Future[list[Outcome]] = self._loop.create_future()

        def run() -> None:
            _set_result(done, _call_each(method, arguments))

        self._loop.outside(self._random.choice(SECONDS), run)
        return await done

    def close(self) -> None:
        """There is no thread."""


def without_threads(local: Local, loop: VirtualLoop, random: Random) -> Local:
    local._threads.executor.shutdown()  # it has begun no thread yet
    local._threads.executor = VirtualThreads(loop, random, local.settings.threads or 64)  # type: ignore[assignment]
    if local._steps is not None:
        local._steps._caller = VirtualCaller(loop, random)
    return local
