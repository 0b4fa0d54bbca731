"""An event loop in a thread, for code without asyncio and for code whose own event loop runs already."""

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
    """Runs coroutines of other threads. The thread starts with the first one, and ends with the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine, and do not wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop or self._start())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. An interruption of this thread cancels the coroutine."""
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:  # KeyboardInterrupt above all
            future.cancel()
            raise

    def end(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, and wait for it unless the garbage collector calls from the loop's own thread."""
        if self._thread is threading.current_thread():
            self.start(coroutine)
        else:
            self.run(coroutine)

    def close(self) -> None:
        """End the thread. The next coroutine starts another."""
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
        """Start anew with the next call."""
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
"""The loop that all clients of the process share."""

os.register_at_fork(after_in_child=background.forget)  # a child has no thread but its own
