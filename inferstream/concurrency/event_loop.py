"""The event loop that the server and its workers run on."""

import asyncio
import os
import sys

CHOICE = "INFERSTREAM_EVENT_LOOP"
"""The variable that worker processes inherit, and that of the setting: auto, asyncio or uvloop."""


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
    os.environ[CHOICE] = choice
