"""The event loop of the server and its workers."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

CHOICE = "INFERSTREAM_EVENT_LOOP"
"""The environment variable that selects the event loop, also in workers: auto, asyncio or uvloop."""

T = TypeVar("T")

logger = logging.getLogger("inferstream.server")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create a uvloop event loop if uvloop is installed, otherwise an asyncio event loop.

    asyncio is also used if it is chosen, or if imported code uses `nest_asyncio`, which cannot patch uvloop.
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
    """Set the event loop type of this process and of worker processes."""
    if choice == "auto" and "nest_asyncio" in sys.modules:
        choice = "asyncio"
    if choice != os.environ.get(CHOICE, "auto").lower():  # setting a variable delays the start by 30 ms
        os.environ[CHOICE] = choice


def install_event_loop() -> asyncio.AbstractEventLoop:
    """Install the event loop of the main thread. Other threads create one when code in them requests it."""
    asyncio.set_event_loop_policy(_LoopsInThreads())
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


class _LoopsInThreads(asyncio.DefaultEventLoopPolicy):
    """Makes `asyncio.get_event_loop()` work in blocking model code, as in the main thread of a script."""

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        try:
            return super().get_event_loop()
        except RuntimeError:  # the thread has no event loop
            self.set_event_loop(self.new_event_loop())
        return super().get_event_loop()


def run_despite_exits(
    loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T], *exits: type[BaseException]
) -> T:
    """Run `main` to completion. If another task raises one of `exits`, for example in model code, log it."""
    task = loop.create_task(main)
    _log_exits(lambda: loop.run_until_complete(task), task.done, exits)
    return task.result()


def run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, even if a task raises SystemExit or KeyboardInterrupt."""
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
            logger.error(
                "background task failed: %s; the server continues", type(error).__name__, exc_info=error
            )
