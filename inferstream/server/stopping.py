"""The time limits of a stop: of each step, and of all steps together."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ..settings import Settings

logger = logging.getLogger("inferstream.server")

PORTS = 2.25
"""Seconds to close the ports. Finished responses have `LAST_WORDS` seconds of them to reach their clients."""

FRONT_ENDS = 3.25
"""Seconds for a further front end to close its ports, unload its models and end."""

UNLOADING = 2.0
"""Seconds that the models of one process may take to unload together."""

LAST_RESPONSES = 1.0
"""Seconds that finished responses may take to reach Kafka, and again to be committed."""

AFTERWARDS = 4.75
"""Seconds after the grace period for all other steps together, the end of worker processes included."""

SPARE = 0.25
"""Seconds beyond a limit after which a stop is never going to end."""


def longest_stop(settings: Settings) -> float:
    """Seconds within which a server stops, independent of its models, clients and workers."""
    return settings.shutdown_delay + settings.shutdown_grace + AFTERWARDS


async def within(seconds: float, what: str, *steps: Coroutine[Any, Any, object]) -> None:
    """Run these steps at the same time, for at most `seconds`, and log a step that fails or takes longer.

    A step that takes longer is cancelled but not awaited, because it may ignore the cancellation.
    """
    tasks = [asyncio.create_task(step) for step in steps]
    if not tasks:
        return
    done, overdue = await asyncio.wait(tasks, timeout=max(seconds, 0.0))
    for task in overdue:
        task.cancel()
    if overdue:
        logger.error("stopping: %s took longer than %.1f s", what, seconds)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("stopping: %s failed", what, exc_info=error)
