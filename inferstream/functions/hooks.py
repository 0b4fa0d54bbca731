"""Load and unload hooks of an app, which run once per process."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ..concurrency.scope import is_own_cancel
from ..concurrency.threads import call_apart
from ..errors import InvalidSettings
from .errors import not_a_function, source_location

Hook = Callable[[], Any]


def check_hook(hook: Hook) -> None:
    """Raise InvalidSettings, naming the file and function, for a hook that takes arguments or yields."""
    if not callable(hook):
        raise not_a_function(hook)
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        raise InvalidSettings(
            f"{source_location(hook)}: a hook does not yield; what follows the yield is a hook of on_unload"
        )
    try:
        inspect.signature(hook).bind()
    except TypeError as error:
        raise InvalidSettings(f"{source_location(hook)}: a hook takes no arguments: {error}") from None
    except ValueError:
        return  # some functions in C do not expose their parameters


class Hooks:
    """Runs load hooks before the first model of the app loads, and unload hooks after the last one unloads.

    Models may load in several threads and event loops at once. All of them wait for the load hooks, which
    the first one runs.
    """

    def __init__(self) -> None:
        self.load: list[Hook] = []
        self.unload: list[Hook] = []
        self._lock = threading.Lock()
        self._users = 0
        self._loaded: Future[None] | None = None
        """Done when the load hooks have run."""
        self._left: Future[None] | None = None
        """Done when the running unload hooks are finished."""

    async def enter(self) -> None:
        """Run the load hooks if this is the first model.

        If a hook fails, its error is raised for every waiting model. The next model tries again.
        """
        with self._lock:
            self._users += 1
            loaded, first = self._loaded, self._loaded is None
            if loaded is None:
                loaded = self._loaded = Future()
                loaded.set_running_or_notify_cancel()  # so that a model that stops waiting cannot cancel it
            left = self._left
        if not first:
            await asyncio.wrap_future(loaded)
            return
        try:
            if left is not None:
                await asyncio.wrap_future(left)
            for hook in self.load:
                await call_apart(hook)
        except BaseException as error:  # including cancellation
            with self._lock:
                self._loaded = None
            failed = isinstance(error, Exception)
            loaded.set_exception(error if failed else RuntimeError("a load hook was cancelled"))
            raise
        loaded.set_result(None)

    async def leave(self) -> None:
        """Run all unload hooks if this is the last model, and then raise the first error, if any."""
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
