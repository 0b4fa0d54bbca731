"""Signal handling of a server process in which model code runs and may fork."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial, wraps
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

MAIN_THREAD_SECONDS = 5.0
"""The time that other threads wait for the main thread to set their handler, in seconds."""

logger = logging.getLogger("inferstream.server")

_set = signal.signal
_loop: asyncio.AbstractEventLoop | None = None


def run_on(loop: asyncio.AbstractEventLoop) -> None:
    """Use this loop of the main thread to set signal handlers for code in other threads."""
    global _loop
    _loop = loop


def handle(handlers: Mapping[signal.Signals, Handler], leave: Callable[[], None] = lambda: None) -> None:
    """Handle signals for the life of the process, even if model code sets other handlers.

    Model code can set handlers of other signals, in any thread. A process that it forks has the default
    handlers, and first calls `leave`.
    """
    for name, handler in handlers.items():
        _set(name, handler)
    signal.signal = partial(_set_for_model, frozenset(handlers), set())
    os.register_at_fork(
        before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, handlers),
        after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, handlers),
        after_in_child=partial(_restore, handlers, leave),
    )


def _restore(names: Collection[signal.Signals], leave: Callable[[], None]) -> None:
    signal.signal = _set
    for name in names:
        _set(name, signal.default_int_handler if name is signal.SIGINT else signal.SIG_DFL)
    signal.set_wakeup_fd(-1)  # otherwise signals would wake the event loop of the server
    signal.pthread_sigmask(signal.SIG_UNBLOCK, names)
    leave()


def _set_for_model(reserved: Collection[int], refused: set[int], number: int, handler: Handler, /) -> Handler:
    """Replace `signal.signal`: works in any thread, but keeps the server's handlers."""
    if number in reserved:
        if number not in refused and handler is not signal.getsignal(number):
            refused.add(number)
            logger.warning(
                "signal.signal: handler for %s ignored, because the server handles this signal; "
                "put cleanup code in `unload` or atexit",
                signal.Signals(number).name,
            )
        return signal.getsignal(number)
    guarded = _catch_errors(handler) if callable(handler) else handler
    if _loop is None or threading.current_thread() is threading.main_thread():
        return _set(number, guarded)

    async def set_here() -> Handler:
        return _set(number, guarded)

    try:
        return asyncio.run_coroutine_threadsafe(set_here(), _loop).result(MAIN_THREAD_SECONDS)
    except TimeoutError:  # it will be set as soon as the main thread is free
        return signal.getsignal(number)


def _catch_errors(handler: Callable[[int, FrameType | None], Any]) -> Handler:
    """Wrap a handler so that its errors do not stop the event loop that it interrupts."""

    @wraps(handler)
    def call(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException:
            with suppress(RuntimeError):  # no event loop is running
                if asyncio.current_task() is None:
                    logger.exception("signal handler of a model failed")
                    return
            raise

    return call
