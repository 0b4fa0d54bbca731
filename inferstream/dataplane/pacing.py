"""Streams at no more than a given rate."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any


def paced(
    following: Callable[[], Awaitable[Any]], took: Callable[[float], None] | None, interval: float
) -> Callable[[], Awaitable[Any]]:
    """`following` at a rate of one item in `interval` seconds. `took` gets the time of the model alone."""
    loop = asyncio.get_running_loop()
    due = loop.time() + interval

    async def next_item() -> Any:
        nonlocal due
        if (early := due - loop.time()) > 0:
            await asyncio.sleep(early)
        started = perf_counter()
        item = await following()
        if took is not None:
            took(perf_counter() - started)
        due = max(due + interval, loop.time())  # a late item may be followed sooner, so that the rate is kept
        return item

    return next_item
