"""An event loop in a thread, for synchronous code and for code that already runs on another event loop."""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from .event_loop import new_event_loop, run_forever

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines for other threads. Its thread starts with the first coroutine and stops at exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, and return a future for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop or self._start())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. Interrupting the calling thread cancels the coroutine."""
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:  # KeyboardInterrupt, in particular
            future.cancel()
            raise

    def end(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine and wait for it.

        Does not wait if it is called in the loop's own thread, for example by the garbage collector.
        """
        if self._thread is threading.current_thread():
            self.start(coroutine)
        else:
            self.run(coroutine)

    def close(self) -> None:
        """Stop the thread. The next coroutine starts a new one."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        atexit.unregister(self.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1)
        if not thread.is_alive():
            loop.close()

    def forget(self) -> None:
        """Discard the loop and the thread, so that the next coroutine starts new ones."""
        self._starting = threading.Lock()
        self._loop = self._thread = None

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                loop = new_event_loop()
                self._thread = threading.Thread(
                    target=run_forever, args=(loop,), name=self._name, daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
                self._loop = loop
            return self._loop


background: Final = BackgroundLoop("inferstream-clients")
"""The loop that all clients in the process share."""

os.register_at_fork(after_in_child=background.forget)  # the thread does not exist in a forked child
