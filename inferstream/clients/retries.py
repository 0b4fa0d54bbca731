"""When a failed call is made again."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import CallFailed

logger = logging.getLogger("inferstream.clients")

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 15.0
"""Seconds; between these a pause doubles each time."""

T = TypeVar("T")


async def retried(call: Callable[[], Awaitable[T]], retries: int) -> T:
    """What `call` answers, made up to `retries` times again while it says that this may help.

    Raises its last CallFailed.
    """
    for made in range(retries + 1):
        try:
            return await call()
        except CallFailed as error:
            if made == retries or not error.retryable:
                raise
            pause = pause_after(made, error.retry_after)
            logger.info("again in %.2f s (%d of %d): %s", pause, made + 1, retries, error.message)
        await asyncio.sleep(pause)
    raise AssertionError("not reached")


def pause_after(made: int, asked: float | None) -> float:
    """Seconds to wait after `made` + 1 failures: random, so that callers spread, and never less than asked."""
    pause = min(FIRST_PAUSE * 2.0 ** min(made, 16), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
    return pause if asked is None else max(pause, asked)
