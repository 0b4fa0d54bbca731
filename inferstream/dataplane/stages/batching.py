"""The stage that runs requests as one if they arrive close together."""

import logging
from dataclasses import replace
from functools import partial

from ...telemetry.stages import BatchMeters
from .base import Pipeline, Shared
from .limits import Limits

logger = logging.getLogger("inferstream.dataplane")

MANY = 4096
"""Calls that batching admits at most, unless two full batches need more: a bound, not a policy."""


def callers(slots: int, size: int) -> int:
    """The number of calls that fills each of `slots` batches while one more gathers."""
    return min((slots + 1) * size, max(slots, 2 * size, MANY))


def batching(model: Pipeline, shared: Shared) -> Pipeline:
    """Batches, with an inner limit that they share with streams; off without a size and a time in the settings."""
    settings = model.settings
    size, wait = settings.max_batch_size, settings.max_batch_time
    if size <= 1:
        return model
    if wait <= 0:
        why = " without max_batch_time"
    elif not model.execution.capabilities.predict:
        why = ", because the model only streams"
    else:
        from .batches import Batching  # late: no import cost when it is off

        slots, meters = model.slots, model.meters
        admitted = slots.through(partial(callers, size=size))
        most = callers(MANY, size)  # of batches in the queue, which `admitted` bounds
        inner = Limits(model.handler, slots, most, settings.priority_aging, meters.queue)
        handler = Batching(inner, model.checks, slots, size, wait, meters.of(BatchMeters), meters.queue)
        return replace(model, handler=handler, slots=admitted, form=None)
    logger.warning("model %s: max_batch_size has no effect%s", settings.name, why)
    return model
