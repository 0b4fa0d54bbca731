"""Retries of calls: which failures are retried, and after what delay."""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import CallFailed

logger = logging.getLogger("inferstream.clients")

FIRST_PAUSE = 0.25
"""The maximum delay before the second attempt, in seconds."""

MAX_PAUSE_SECONDS = 15.0
"""The maximum delay between two attempts, in seconds. Delays double until they reach it."""

T = TypeVar("T")


def is_retryable(error: CallFailed) -> bool:
    """Whether another attempt may succeed."""
    return error.retryable


def never_started(error: CallFailed) -> bool:
    """Whether the call reached no model: the connection failed, or the server sent a retry delay."""
    return error.unreachable or (error.retryable and error.retry_after is not None)


async def retry(
    call: Callable[[], Awaitable[T]],
    retries: int,
    repeats: Callable[[CallFailed], bool] = is_retryable,
    until: float = math.inf,
) -> T:
    """Return the result of `call`, repeated up to `retries` times after failures that `repeats` accepts.

    No retry is made if its delay would pass `until`, on the event loop's clock. Raises the last CallFailed.
    """
    for made in range(retries + 1):
        try:
            return await call()
        except CallFailed as error:
            if made == retries or not repeats(error):
                raise
            pause = pause_after(made, error.retry_after)
            if asyncio.get_running_loop().time() + pause >= until:
                raise
            logger.info("retrying in %.2f s (%d of %d): %s", pause, made + 1, retries, error)
        await asyncio.sleep(pause)
    raise AssertionError("not reached")


def pause_after(made: int, requested: float | None) -> float:
    """Return the delay in seconds after `made` + 1 failures.

    It is at least the delay that the server `requested`, and is randomized (jitter), so that
    clients do not retry at the same time.
    """
    pause = min(FIRST_PAUSE * 2.0 ** min(made, 16), MAX_PAUSE_SECONDS) * random.uniform(0.5, 1.0)
    return pause if requested is None else max(pause, requested)
