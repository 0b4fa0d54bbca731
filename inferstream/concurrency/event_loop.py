"""The event loop that the server and its workers run on."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger("inferstream.server")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_despite_exits(
    loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T], *exits: type[BaseException]
) -> T:
    """Run `main` to its end. An exit raised in another task, one that model code has started, is logged."""
    task = loop.create_task(main)
    _log_exits(lambda: loop.run_until_complete(task), task.done, exits)
    return task.result()


def run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run until the loop is stopped."""
    _log_exits(loop.run_forever, lambda: False, (SystemExit, KeyboardInterrupt))


def _log_exits(
    run: Callable[[], object], is_done: Callable[[], bool], exits: tuple[type[BaseException], ...]
) -> None:
    while True:
        try:
            run()
            return
        except exits as error:
            if is_done():
                raise
            logger.error("a task ended with %s; the server continues", type(error).__name__, exc_info=error)
