"""The load and unload hooks of an app, once per process."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Hook = Callable[[], Any]


class Hooks:
    """Runs the load hooks before the first model of the app loads, and the unload hooks after the last.

    Models may load in several threads and event loops at once; the others wait for the first.
    """

    def __init__(self) -> None:
        self.load: list[Hook] = []
        self.unload: list[Hook] = []
        self._lock = threading.Lock()
        self._users = 0
        self._loaded: Future[None] | None = None

    def __bool__(self) -> bool:
        return bool(self.load or self.unload)

    async def enter(self) -> None:
        """Raises the error of a load hook, for every model that waits for it."""
        with self._lock:
            self._users += 1
            loaded, first = self._loaded, self._loaded is None
            if loaded is None:
                loaded = self._loaded = Future()
        if not first:
            await asyncio.wrap_future(loaded)
            return
        try:
            for hook in self.load:
                await _run(hook)
        except BaseException as error:
            with self._lock:
                self._loaded = None
            loaded.set_exception(error)
            raise
        loaded.set_result(None)

    async def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or self._loaded is None:
                return
            self._loaded = None
        for hook in reversed(self.unload):
            await _run(hook)


async def _run(hook: Hook) -> None:
    if inspect.iscoroutinefunction(hook):
        await hook()
        return
    result = await asyncio.to_thread(hook)
    if inspect.isawaitable(result):
        await result
