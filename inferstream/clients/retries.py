"""Attempts at a call: which failures another attempt follows, and when."""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import CallFailed

logger = logging.getLogger("inferstream.clients")

FIRST_PAUSE = 0.25
"""Seconds before the second attempt at most."""

LONGEST_PAUSE = 15.0
"""Seconds between two attempts at most: each pause is twice the one before."""

T = TypeVar("T")


def may_help(error: CallFailed) -> bool:
    """Whether another attempt may succeed."""
    return error.retryable


def nothing_began(error: CallFailed) -> bool:
    """Whether no model can have begun: there was no connection, or the server has said when to call again."""
    return error.unreachable or (error.retryable and error.retry_after is not None)


async def retried(
    call: Callable[[], Awaitable[T]],
    retries: int,
    repeats: Callable[[CallFailed], bool] = may_help,
    until: float = math.inf,
) -> T:
    """The result of `call`, which is repeated up to `retries` times after failures that `repeats` accepts.

    A pause that would end after `until`, on the clock of the event loop, is not made. Raises the last CallFailed.
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
            logger.info("again in %.2f s (%d of %d): %s", pause, made + 1, retries, error)
        await asyncio.sleep(pause)
    raise AssertionError("not reached")


def pause_after(made: int, requested: float | None) -> float:
    """Seconds to wait after `made` + 1 failures, at least those that the server has requested.

    The pause is random, so that clients do not repeat their calls at the same time.
    """
    pause = min(FIRST_PAUSE * 2.0 ** min(made, 16), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
    return pause if requested is None else max(pause, requested)
