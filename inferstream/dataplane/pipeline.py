"""The stages of one model, put around it once, when it loads."""

import logging
from typing import TYPE_CHECKING

from ..telemetry.metrics import ModelMeters
from .checks import Declaration
from .execution.base import Execution
from .handler import Handler
from .stages.batching import Batching, callers
from .stages.deadline import Deadline
from .stages.limits import Limits
from .stages.live import Live
from .stages.metrics import Metrics
from .stages.tracing import Tracing
from .stages.validation import Validation

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing as Tracer

logger = logging.getLogger("inferstream.dataplane")


class Pipeline:
    """What the dataplane keeps of a loaded model: the handler, and a grip on the calls inside it."""

    def __init__(
        self,
        execution: Execution,
        meters: ModelMeters,
        request_timeout: float | None,
        tracer: "Tracer | None" = None,
    ) -> None:
        settings = execution.settings
        declaration = Declaration(execution.inputs, execution.outputs, settings.input_validation)
        limit = settings.request_timeout if settings.request_timeout is not None else request_timeout

        handler: Handler = execution
        slots = execution.slots
        size, wait = settings.max_batch_size, settings.max_batch_time
        if size > 1 and wait > 0 and "predict" in execution.answers:
            handler = Limits(handler, slots, callers(slots, size))  # streams share the slots with batches
            handler = Batching(handler, declaration, slots, size, wait, meters.batching())
            slots = callers(slots, size)
        elif size > 1:
            logger.warning("model %s: %s", settings.name, _why_not(wait))
        handler = Validation(handler, declaration)  # refuses a bad request before it costs anything
        handler = Limits(handler, slots, settings.max_queue)
        handler = Deadline(handler, limit)  # waiting in the queue counts
        handler = self.live = Live(handler)
        handler = Metrics(handler, meters)  # sees refusals too
        self.handler = handler if tracer is None else Tracing(handler, tracer, settings)


def _why_not(wait: float) -> str:
    if wait <= 0:
        return "max_batch_size has no effect without max_batch_time"
    return "max_batch_size has no effect, because the model only streams"
