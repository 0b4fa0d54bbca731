"""KV cache metrics of a model in this process."""

import logging

from ...model import MLModel
from ...telemetry.model_meters import ModelMeters
from ...telemetry.stages import KvMeters, StepMeters

logger = logging.getLogger("inferstream.model")


def measure(model: MLModel, max_active: int, meters: ModelMeters) -> None:
    """Update the KV cache metrics from the model's `kv_usage`.

    Without `kv_usage`, step models report the share of active streams.

    `max_active` is 0 for models without steps.
    """
    try:
        used = model.kv_usage
        if used is None:
            if not max_active:  # The common case. Endpoint pickers poll every model.
                return
            steps = meters.stages.get(StepMeters)
            if not isinstance(steps, StepMeters):
                return
            used = steps.active / max_active
        kv = meters.of(KvMeters)
        kv.used, kv.caches = min(max(float(used), 0.0), 1.0), 1
    except Exception:  # `kv_usage` is model code.
        logger.exception("model %s: kv_usage failed", model.name)


def forget(meters: ModelMeters) -> None:
    """Reset the metrics of an unloaded model."""
    if (kv := meters.kv) is not None:
        kv.used, kv.caches = 0.0, 0
