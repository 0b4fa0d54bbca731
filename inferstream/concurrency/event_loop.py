"""The event loop that the server and its workers run on."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, where it can be had."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
