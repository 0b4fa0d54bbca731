"""The stages of one model, put around it once, when it loads."""

from ..telemetry.metrics import ModelMeters
from .checks import Declaration
from .execution.base import Execution
from .handler import Handler
from .stages.deadline import Deadline
from .stages.limits import Limits
from .stages.live import Live
from .stages.metrics import Metrics
from .stages.validation import Validation


class Pipeline:
    """What the dataplane keeps of a loaded model: the handler, and a grip on the calls inside it."""

    def __init__(self, execution: Execution, meters: ModelMeters, request_timeout: float | None) -> None:
        settings = execution.settings
        declaration = Declaration(execution.inputs, execution.outputs, settings.input_validation)
        limit = settings.request_timeout if settings.request_timeout is not None else request_timeout

        handler: Handler = execution
        handler = Validation(handler, declaration)  # refuses a bad request before it costs anything
        handler = Limits(handler, execution.slots, settings.max_queue)
        handler = Deadline(handler, limit)  # waiting in the queue counts
        handler = self.live = Live(handler)
        self.handler: Handler = Metrics(handler, meters)  # sees refusals too
