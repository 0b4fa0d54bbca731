"""What each front end gets of a limit that a model's settings set for the whole server."""

import logging

from ...settings import ModelSettings

logger = logging.getLogger("inferstream.server")


def divide(settings: ModelSettings, index: int, count: int) -> None:
    """Leave in these settings what the front end of this index, of so many, may run and let wait.

    The shares add up to the limit, unless it is smaller than the number of front ends: each gets one then.
    """
    for name in ("max_concurrency", "max_queue"):
        limit = getattr(settings, name)
        if limit:
            setattr(settings, name, max(1, limit // count + (index < limit % count)))


def warn(settings: ModelSettings, count: int) -> None:
    """Say which limits of a model cannot be kept exactly."""
    for name in ("max_concurrency", "max_queue"):
        limit = getattr(settings, name)
        if limit and limit < count:
            logger.warning(
                "model %s: %s %d is less than one for each of %d front ends, so it is %d in all",
                settings.name,
                name,
                limit,
                count,
                count,
            )
