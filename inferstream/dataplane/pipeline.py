"""The stages of a model, put around it when it loads."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import extensions
from ..errors import ModelLoadFailed
from ..settings import Settings
from ..telemetry.access import AccessLines
from ..telemetry.console import access_sink
from ..telemetry.metrics import Meters
from ..telemetry.stages import BatchMeters, KvMeters, ResidencyMeters, StepMeters, TokenMeters
from .checks import checked
from .counts import Counts
from .edges import CallEdges
from .execution.base import Execution
from .facets import Facets
from .json_limits import json_limits
from .peers import Peers
from .server_parts import ServedModels
from .stages.access_log import access_log
from .stages.base import Pipeline, Shared, StageFactory
from .stages.joined import joined
from .stages.limits import limits
from .stages.live import Deadline, Live, default_limit_of, limit_of
from .stages.metrics import compute, metrics
from .stages.middleware import middleware
from .stages.show_errors import show_errors
from .turns import find_turns

if TYPE_CHECKING:
    from ..functions.app import App
    from ..functions.middleware import Middleware
    from .stages.store import Store

logger = logging.getLogger("inferstream.dataplane")


def batching(model: Pipeline, shared: Shared) -> Pipeline:
    if model.settings.max_batch_size <= 1:
        return model
    from .stages.batching import batched  # late: no import cost when it is off

    return batched(model)


def caching(model: Pipeline, shared: Shared) -> Pipeline:
    """Off unless the settings of the server and of the model enable it."""
    if not model.settings.cache_enabled:
        return model
    if shared.store is None:
        name = model.settings.name
        logger.warning("model %s: cache_enabled has no effect unless the server enables it", name)
        return model
    from .stages.cache import cached  # late: no import cost when it is off

    return cached(model, shared.store, shared)


def validation(model: Pipeline, shared: Shared) -> Pipeline:
    counts = Counts(model.limits, model.execution.signature, extensions.input_names("json_inputs"))
    return replace(model, handler=checked(model.handler, model.checks, counts))


def deadline(model: Pipeline, shared: Shared) -> Pipeline:
    return replace(model, handler=Deadline(model.handler, limit_of(model.settings, shared.settings)))


def live(model: Pipeline, shared: Shared) -> Pipeline:
    handler = Live(model.handler, default_limit_of(model.settings, shared.settings))
    return replace(model, handler=handler, live=handler)


def calling(model: Pipeline, shared: Shared) -> Pipeline:
    """On for a model whose settings name others that it calls. Raises ModelLoadFailed for a way in a circle."""
    if not model.settings.calls or shared.edges is None:
        return model
    from .stages.calling import calls_others  # late: few models call others

    return calls_others(model, shared.edges)


STAGES: tuple[StageFactory, ...] = (
    calling,  # the call that runs, in a batch that of the batch
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
    show_errors,  # of clients alone: all stages inside see the error itself
)
"""From the inside out. Those of plug-ins join at the places that they name, or inside the middleware."""


def build_shared(
    settings: Settings,
    meters: Meters,
    models: ServedModels | None = None,
    peers: Peers | None = None,
    edges: CallEdges | None = None,
    shares_responses: bool = False,
) -> Shared:
    """Make the parts that all models share. The order here is the order of their meters at a scrape.

    Raises InvalidSettings for middleware that cannot be imported, and in strict mode for a stage of a package.
    """
    meters.show(BatchMeters)
    store: Store | None = None
    if settings.cache_enabled:
        from .stages.cache import store_of

        store = store_of(settings, meters)
    meters.show(StepMeters)
    meters.show(TokenMeters)
    meters.show(KvMeters)
    if settings.limits_memory:
        meters.show(ResidencyMeters)
    for _, kind in extensions.loaded(extensions.METERS, settings.strict):
        meters.show(kind)
    middlewares: tuple[Middleware, ...] = ()
    if settings.middleware:
        from ..repository.middleware import middlewares_of  # late: few servers have any

        middlewares = middlewares_of(settings)
    lines = AccessLines(access_sink()) if settings.access_log else AccessLines()
    core = {stage.__name__: stage for stage in STAGES}
    joining = extensions.loaded(extensions.STAGES, settings.strict)
    arranged = extensions.arrange(core, joining, default_inside="middleware")
    stages = tuple(stage if plugin is None else joined(plugin, stage) for plugin, stage in arranged)
    order = find_turns(settings)
    turns = extensions.import_object(order) if order else None
    facets = Facets(settings.strict)
    peers = peers or Peers()
    return Shared(
        settings,
        meters,
        models,
        peers,
        store,
        middlewares,
        lines,
        turns,
        stages,
        facets,
        edges,
        shares_responses,
    )


def build_pipeline(execution: Execution, shared: Shared, app: "App | None" = None) -> Pipeline:
    """Put the stages around a model. Raises ModelLoadFailed if a stage returns none."""
    name, version = execution.settings.name, execution.settings.version
    meters = shared.meters.of(name, version)
    if execution.capabilities.steps:
        meters.of(StepMeters)  # shown before the first stream
    execution.meter(meters)
    facets = shared.facets.of(execution.signature, execution.settings)
    model = Pipeline.of(execution, meters, json_limits(shared.settings), facets, app)
    for factory in shared.stages:
        added = factory(model, shared)
        if not isinstance(added, Pipeline):
            stage = getattr(factory, "__name__", factory)
            raise ModelLoadFailed(
                f"stage {stage} of model {name} returned a {type(added).__name__}, not a Pipeline"
            )
        model = added
    return model
