"""The load and unload hooks of an app, once per process."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ..concurrency.scope import is_own_cancel
from ..concurrency.threads import call_apart
from ..errors import InvalidSettings
from .errors import location_of, no_function

Hook = Callable[[], Any]


def check_hook(hook: Hook) -> None:
    """Raises InvalidSettings, which names file and function, for a hook that could not run to its end."""
    if not callable(hook):
        raise no_function(hook)
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        raise InvalidSettings(
            f"{location_of(hook)}: a hook does not yield; what follows the yield is a hook of on_unload"
        )
    try:
        inspect.signature(hook).bind()
    except TypeError as error:
        raise InvalidSettings(f"{location_of(hook)}: a hook takes no arguments: {error}") from None
    except ValueError:
        return  # some functions in C do not tell their parameters


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
        """Done when the load hooks have run."""
        self._left: Future[None] | None = None
        """Done when the unload hooks that run have run."""

    async def enter(self) -> None:
        """Raises the error of a load hook, for every model that waits for it. The next model tries again."""
        with self._lock:
            self._users += 1
            loaded, first = self._loaded, self._loaded is None
            if loaded is None:
                loaded = self._loaded = Future()
                loaded.set_running_or_notify_cancel()  # a waiting model that gives up must not cancel it
            left = self._left
        if not first:
            await asyncio.wrap_future(loaded)
            return
        try:
            if left is not None:
                await asyncio.wrap_future(left)
            for hook in self.load:
                await call_apart(hook)
        except BaseException as error:  # a cancelled load too
            with self._lock:
                self._loaded = None
            failed = isinstance(error, Exception)
            loaded.set_exception(error if failed else RuntimeError("a load hook was cancelled"))
            raise
        loaded.set_result(None)

    async def leave(self) -> None:
        """Raises the first error of an unload hook, after all of them."""
        with self._lock:
            self._users -= 1
            if self._users or self._loaded is None:
                return
            self._loaded = None
            left: Future[None] = Future()
            left.set_running_or_notify_cancel()
            self._left = left
        errors: list[BaseException] = []
        try:
            for hook in reversed(self.unload):
                try:
                    await call_apart(hook)
                except BaseException as error:  # model code may raise anything
                    if is_own_cancel(error):
                        raise
                    errors.append(error)
        finally:
            with self._lock:
                self._left = None
            left.set_result(None)
        if errors:
            raise errors[0]
