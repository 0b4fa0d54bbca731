"""How long stopping may take: each step, and all of it."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ..settings import Settings

logger = logging.getLogger("inferstream.server")

PORTS = 2.25
"""Seconds to close the ports: answers that are made have `LAST_WORDS` to get through."""

FRONT_ENDS = 3.25
"""Seconds for a further front end to close its ports, unload its models and end."""

UNLOADING = 2.0
"""Seconds that the models of one process may take to unload together."""

LAST_RESPONSES = 1.0
"""Seconds that answers already made may take to reach Kafka, and to be committed afterwards."""

AFTERWARDS = 4.75
"""Seconds after the grace period for everything else together, worker processes included."""

SPARE = 0.25
"""Seconds after which a stop that should be over is not going to end."""


def longest_stop(settings: Settings) -> float:
    """Seconds within which a server has stopped, whatever its models, clients and workers do."""
    return settings.shutdown_delay + settings.shutdown_grace + AFTERWARDS


async def within(seconds: float, what: str, *steps: Coroutine[Any, Any, object]) -> None:
    """Run these steps at once, for at most `seconds`; log what fails or takes longer, and go on without it.

    A step that takes longer is cancelled and not waited for, because it may not heed that either.
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
