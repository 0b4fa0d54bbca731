"""Time limits for stopping the server: one for each step, and one for the whole stop."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ..settings import Settings

logger = logging.getLogger("inferstream.server")

PORTS = 2.25
"""Seconds to close the ports.

This includes the `LAST_WORDS` seconds (`http1/port.py`) in which finished responses can reach their clients.
"""

FRONT_ENDS = 3.25
"""Seconds for a front-end process to close its ports, unload its models and exit."""

UNLOADING = 2.0
"""Seconds to unload all models of one process."""

LAST_RESPONSES = 1.0
"""Seconds for finished responses to reach Kafka, and the same again for the commit."""

AFTERWARDS = 4.75
"""Seconds after the grace period for all remaining steps, including the exit of worker processes."""

SPARE = 0.25
"""Seconds added to a limit before a stop counts as hanging."""


def longest_stop(settings: Settings) -> float:
    """Return the maximum duration of a stop in seconds. It is independent of models, clients and workers."""
    return settings.shutdown_delay + settings.shutdown_grace + AFTERWARDS


async def run_within(seconds: float, what: str, *steps: Coroutine[Any, Any, object]) -> None:
    """Run the steps concurrently for at most `seconds`. Logs failures, and an error if the limit is exceeded.

    A step that exceeds the limit is cancelled but not awaited, because it may ignore the cancellation.
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
