"""The stages of one model, put around it once, when it loads."""

import logging
from typing import TYPE_CHECKING

from ..telemetry.metrics import ModelMeters
from .checks import checks_of
from .execution.base import Execution
from .handler import Handler
from .stages.deadline import Deadline
from .stages.gate import Gate
from .stages.limits import Limits
from .stages.live import Live
from .stages.metrics import Metrics
from .stages.store import Store
from .stages.tracing import Tracing
from .stages.validation import Validation

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracer
    from .stages.cache import Cache

logger = logging.getLogger("inferstream.dataplane")


class Pipeline:
    """What the dataplane keeps of a loaded model: the handler, and a grip on the calls inside it."""

    def __init__(
        self,
        execution: Execution,
        meters: ModelMeters,
        request_timeout: float | None,
        store: Store | None = None,
        tracer: "Tracer | None" = None,
    ) -> None:
        self.meters = meters
        settings = execution.settings
        checks = checks_of(execution.signature, execution.strictness)
        limit = settings.request_timeout if settings.request_timeout is not None else request_timeout

        execution.meter(meters.queue, meters.stepping() if "steps" in execution.capabilities else None)

        handler: Handler = execution
        slots, aging = execution.slots, settings.priority_aging
        size, wait = settings.max_batch_size, settings.max_batch_time
        if size > 1 and wait > 0 and "predict" in execution.capabilities:
            from .stages.batching import Batching, callers  # late, as the cache: what is off does not exist

            # Streams share the slots with batches.
            handler = Limits(handler, slots, callers(slots, size), aging, meters.queue)
            handler = Batching(handler, checks, slots, size, wait, meters.batching(), meters.queue)
            slots = callers(slots, size)
        elif size > 1:
            logger.warning("model %s: %s", settings.name, _why_not(wait))
        handler = queue = Limits(handler, slots, settings.max_queue, aging, meters.queue)
        self.cache: Cache | None = None
        if settings.cache_enabled and store is not None:
            from .stages import cache

            if limit is not None:
                handler = Live(Deadline(handler, limit))  # computations go on when those who began them leave
            seconds = settings.cache_ttl or store.seconds
            handler = self.cache = cache.Cache(
                handler, store, seconds, slots + settings.max_queue, meters.caching()
            )
        elif settings.cache_enabled:
            logger.warning(
                "model %s: cache_enabled has no effect unless the server enables it", settings.name
            )
        handler = Validation(handler, checks)  # refuses a bad request before it costs anything
        handler = Deadline(handler, limit)  # waiting in the queue counts
        handler = self.live = Live(handler)
        handler = Metrics(handler, meters)  # sees refusals too
        self.handler = handler if tracer is None else Tracing(handler, tracer, settings)
        self.gate = Gate(queue, meters) if self.cache is None and tracer is None else None
        """Not there where a call may be answered from the cache, or is to be traced, although the queue is full."""


def _why_not(wait: float) -> str:
    if wait <= 0:
        return "max_batch_size has no effect without max_batch_time"
    return "max_batch_size has no effect, because the model only streams"
