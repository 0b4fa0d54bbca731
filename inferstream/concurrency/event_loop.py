"""The event loop that the server and its workers run on."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

CHOICE = "INFERSTREAM_EVENT_LOOP"
"""The variable that worker processes inherit, and that of the setting: auto, asyncio or uvloop."""

T = TypeVar("T")

logger = logging.getLogger("inferstream.server")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop if that is installed, unless asyncio's is chosen or imported code uses `nest_asyncio`.

    That package cannot patch a loop of uvloop.
    """
    choice = os.environ.get(CHOICE, "auto").lower()
    if choice == "asyncio" or (choice != "uvloop" and "nest_asyncio" in sys.modules):
        return asyncio.new_event_loop()
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def choose_event_loop(choice: str) -> None:
    """Choose the event loops of this process and of worker processes."""
    if choice == "auto" and "nest_asyncio" in sys.modules:
        choice = "asyncio"
    if choice != os.environ.get(CHOICE, "auto").lower():  # each variable of ours costs the start 30 ms
        os.environ[CHOICE] = choice


def install_event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process's main thread. Other threads get one when code there asks for theirs."""
    asyncio.set_event_loop_policy(_LoopsInThreads())
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


class _LoopsInThreads(asyncio.DefaultEventLoopPolicy):
    """Makes `asyncio.get_event_loop()` work in blocking model code, as it does in the main thread of a script."""

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        try:
            return super().get_event_loop()
        except RuntimeError:  # it has none
            self.set_event_loop(self.new_event_loop())
        return super().get_event_loop()


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
