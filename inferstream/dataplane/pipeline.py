"""The stages of a model, put around it when it loads."""

from typing import TYPE_CHECKING

from ..errors import ModelLoadFailed
from ..settings import Settings
from ..telemetry.access import AccessLines
from ..telemetry.kv import KvMeters
from ..telemetry.metrics import Meters
from ..telemetry.stages import BatchMeters
from ..telemetry.steps import StepMeters
from ..telemetry.tokens import TokenMeters
from .execution.base import Execution
from .stages.access_log import access_log
from .stages.base import Pipeline, Shared, StageFactory
from .stages.batching import batching
from .stages.caching import caching, store_of
from .stages.deadline import deadline
from .stages.limits import limits
from .stages.live import live
from .stages.long_calls import LongCalls
from .stages.metrics import compute, metrics
from .stages.middleware import middleware
from .stages.show_errors import show_errors
from .stages.tracing import tracing
from .stages.validation import validation

if TYPE_CHECKING:
    from ..functions.app import App
    from ..functions.middleware import Middleware
    from ..telemetry.tracing import Tracer

STAGES: tuple[StageFactory, ...] = (
    compute,
    batching,
    limits,
    caching,
    validation,  # before a bad request has any cost
    middleware,  # before a client that is refused has any cost
    deadline,  # includes the time in the queue
    live,
    metrics,  # includes refusals
    access_log,
    tracing,
    show_errors,  # of clients alone: all stages inside see the error itself
)
"""From the inside out."""


def build_shared(settings: Settings, meters: Meters, tracer: "Tracer | None" = None) -> Shared:
    """Make the parts that all models share. The order here is the order of their meters at a scrape.

    Raises InvalidSettings for middleware that cannot be imported.
    """
    meters.show(BatchMeters)
    store = store_of(settings, meters)
    meters.show(StepMeters)
    meters.show(TokenMeters)
    meters.show(KvMeters)
    middlewares: tuple[Middleware, ...] = ()
    if settings.middleware:
        from ..repository.middleware import middlewares_of  # late: few servers have any

        middlewares = middlewares_of(settings)
    lines = AccessLines(bool(settings.access_log))
    return Shared(settings, meters, LongCalls(settings), store, tracer, middlewares, lines)


def build_pipeline(execution: Execution, shared: Shared, app: "App | None" = None) -> Pipeline:
    """Put the stages around a model. Raises ModelLoadFailed if a stage returns none."""
    name, version = execution.settings.name, execution.settings.version
    meters = shared.meters.of(name, version)
    if execution.capabilities.steps:
        meters.of(StepMeters)  # shown before the first stream
    execution.meter(meters)
    model = Pipeline.of(execution, meters, app)
    for factory in STAGES:
        added = factory(model, shared)
        if not isinstance(added, Pipeline):
            stage = getattr(factory, "__name__", factory)
            raise ModelLoadFailed(
                f"stage {stage} of model {name} returned a {type(added).__name__}, not a Pipeline"
            )
        model = added
    return model
