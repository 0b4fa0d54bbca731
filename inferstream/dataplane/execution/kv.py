"""The use of a model's KV cache in this process."""

import logging

from ...model import MLModel
from ...telemetry.model_meters import ModelMeters
from ...telemetry.stages import KvMeters, StepMeters

logger = logging.getLogger("inferstream.model")


def measure(model: MLModel, max_active: int, meters: ModelMeters) -> None:
    """Set the meters to what the model reports; without a report, of steps, to its active streams.

    `max_active` is 0 for a model without steps.
    """
    try:
        used = model.kv_usage
        if used is None:
            if not max_active:  # the rule, and a picker asks of each model: look at nothing else
                return
            steps = meters.stages.get(StepMeters)
            if not isinstance(steps, StepMeters):
                return
            used = steps.active / max_active
        kv = meters.of(KvMeters)
        kv.used, kv.caches = min(max(float(used), 0.0), 1.0), 1
    except Exception:  # a property of model code
        logger.exception("model %s cannot say its kv_usage", model.name)


def forget(meters: ModelMeters) -> None:
    """The model is unloaded."""
    if (kv := meters.kv) is not None:
        kv.used, kv.caches = 0.0, 0
