"""Streams at no more than a given rate."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


def paced(following: Callable[[], Awaitable[Any]], interval: float) -> Callable[[], Awaitable[Any]]:
    """`following` at a rate of one item in `interval` seconds."""
    loop = asyncio.get_running_loop()
    due = loop.time() + interval

    async def next_item() -> Any:
        nonlocal due
        if (early := due - loop.time()) > 0:
            await asyncio.sleep(early)
        item = await following()
        due = max(due + interval, loop.time())  # a late item may be followed sooner, so that the rate is kept
        return item

    return next_item
