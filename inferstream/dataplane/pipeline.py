"""The stages of one model, put around it once, when it loads."""

from concurrent.futures import Executor, ThreadPoolExecutor

from ..model import MLModel
from ..telemetry.metrics import ModelMeters
from .checks import Declaration
from .execution.local import Local
from .handler import Handler
from .stages.deadline import Deadline
from .stages.limits import Limits
from .stages.live import Live
from .stages.metrics import Metrics
from .stages.validation import Validation

UNBLOCKED_SLOTS = 4096
"""Calls an async model may have in progress when its settings name no limit: a bound, not a policy."""


class Pipeline:
    """What the dataplane keeps of a loaded model: the handler, and a grip on the calls inside it."""

    def __init__(self, model: MLModel, meters: ModelMeters, request_timeout: float | None) -> None:
        settings = model.settings
        declaration = Declaration(model.inputs, model.outputs, settings.input_validation)
        self._threads: Executor = ThreadPoolExecutor(
            settings.threads, thread_name_prefix=f"model-{model.name}"
        )
        local = Local(model, declaration, self._threads)
        self.answers = local.answers
        slots = settings.max_concurrency or (settings.threads if local.blocks else UNBLOCKED_SLOTS)
        limit = settings.request_timeout if settings.request_timeout is not None else request_timeout

        handler: Handler = local
        handler = Validation(handler, declaration)  # refuses a bad request before it costs anything
        handler = Limits(handler, slots, settings.max_queue)
        handler = Deadline(handler, limit)  # waiting in the queue counts
        handler = self.live = Live(handler)
        self.handler: Handler = Metrics(handler, meters)  # sees refusals too

    def close(self) -> None:
        """Let go of the threads; one that is stuck in model code is left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)
