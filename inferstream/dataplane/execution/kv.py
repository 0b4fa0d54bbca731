"""The use of a model's KV cache in this process."""

import logging

from ...model import MLModel
from ...telemetry.kv import KvMeters
from ...telemetry.model_meters import ModelMeters
from ...telemetry.steps import StepMeters

logger = logging.getLogger("inferstream.model")


def measure(model: MLModel, max_active: int, meters: ModelMeters) -> None:
    """Set the meters to what the model reports; without a report, of steps, to its active streams."""
    used = _reported(model)
    if used is None and isinstance(steps := meters.stages.get(StepMeters), StepMeters):
        used = steps.active / max_active
    if used is not None:
        kv = meters.of(KvMeters)
        kv.used, kv.caches = used, 1


def forget(meters: ModelMeters) -> None:
    """The model is unloaded."""
    if isinstance(kv := meters.stages.get(KvMeters), KvMeters):
        kv.used, kv.caches = 0.0, 0


def _reported(model: MLModel) -> float | None:
    try:
        used = model.kv_usage
        return None if used is None else min(max(float(used), 0.0), 1.0)
    except Exception:  # a property of model code
        logger.exception("model %s cannot say its kv_usage", model.name)
        return None
