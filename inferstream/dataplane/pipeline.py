"""The stages of each model, assembled when it loads."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import ModelLoadFailed
from ..extensions import discovery, entries, loading
from ..settings import Settings
from ..telemetry.access import AccessLines
from ..telemetry.console import access_sink
from ..telemetry.metrics import Meters
from ..telemetry.stages import BatchMeters, KvMeters, ResidencyMeters, StepMeters, TokenMeters
from .checks import add_checks
from .counts import Counts
from .edges import CallEdges
from .execution.base import Execution
from .facets import Facets
from .json_limits import json_limits
from .peers import Peers
from .server_parts import ServedModels
from .stages.access_log import access_log
from .stages.base import Pipeline, Shared, StageFactory
from .stages.limits import limits
from .stages.live import Deadline, Live, default_time_limit, time_limit
from .stages.metrics import compute, metrics
from .stages.middleware import middleware
from .stages.plugin_stages import guard_stage
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
    from .stages.batching import add_batching  # Imported lazily: most models do not batch.

    return add_batching(model)


def caching(model: Pipeline, shared: Shared) -> Pipeline:
    """Add the response cache, if both the server and the model enable it."""
    if not model.settings.cache_enabled:
        return model
    if shared.store is None:
        name = model.settings.name
        logger.warning("model %s: cache_enabled has no effect unless the server enables it", name)
        return model
    from .stages.cache import add_cache  # Imported lazily: most models do not cache.

    return add_cache(model, shared.store, shared)


def validation(model: Pipeline, shared: Shared) -> Pipeline:
    counts = Counts(model.limits, model.execution.signature, discovery.input_names("json_inputs"))
    return replace(model, handler=add_checks(model.handler, model.checks, counts))


def deadline(model: Pipeline, shared: Shared) -> Pipeline:
    return replace(model, handler=Deadline(model.handler, time_limit(model.settings, shared.settings)))


def live(model: Pipeline, shared: Shared) -> Pipeline:
    handler = Live(model.handler, default_time_limit(model.settings, shared.settings))
    return replace(model, handler=handler, live=handler)


def calling(model: Pipeline, shared: Shared) -> Pipeline:
    """Let the model call the models listed in its `calls` setting. Raises ModelLoadFailed for circular calls."""
    if not model.settings.calls or shared.edges is None:
        return model
    from .stages.calling import add_calling  # Imported lazily: few models call others.

    return add_calling(model, shared.edges)


STAGES: tuple[StageFactory, ...] = (
    calling,  # Nested calls belong to the call that runs, which may be a batch.
    compute,
    batching,
    limits,
    caching,
    validation,  # Rejects invalid requests before they use resources.
    middleware,  # Rejects unauthorized clients before validation.
    deadline,  # Includes the time in the queue.
    live,
    metrics,  # Includes rejected calls.
    access_log,
    show_errors,  # Replaces errors only for clients. Inner stages get the original error.
)
"""All stages, from the innermost to the outermost.

Stages of plug-ins are placed at the positions that they declare, or inside the middleware by default.
"""


def build_shared_objects(
    settings: Settings,
    meters: Meters,
    models: ServedModels | None = None,
    peers: Peers | None = None,
    edges: CallEdges | None = None,
    shares_responses: bool = False,
) -> Shared:
    """Create the objects that all models share. The order of `show` calls is the order of the metrics.

    Raises InvalidSettings if middleware or a plug-in's stage cannot be imported.
    """
    meters.show(BatchMeters)
    store: Store | None = None
    if settings.cache_enabled:
        from .stages.cache import create_store

        store = create_store(settings, meters)
    meters.show(StepMeters)
    meters.show(TokenMeters)
    meters.show(KvMeters)
    if settings.limits_memory:
        meters.show(ResidencyMeters)
    for _, kind in loading.load_group(entries.METERS, settings.strict):
        meters.show(kind)
    middlewares: tuple[Middleware, ...] = ()
    if settings.middleware:
        from ..repository.middleware import import_middleware  # Imported lazily: few servers have middleware.

        middlewares = import_middleware(settings)
    lines = AccessLines(access_sink()) if settings.access_log else AccessLines()
    core = {stage.__name__: stage for stage in STAGES}
    joining = loading.load_placed_group(entries.STAGES, core, settings.strict)
    arranged = entries.arrange(core, joining, default_inside="middleware")
    stages = tuple(stage if plugin is None else guard_stage(plugin, stage) for plugin, stage in arranged)
    order = find_turns(settings)
    turns = entries.import_object(order) if order else None
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
    """Wrap a model in its stages. Raises ModelLoadFailed if a stage does not return a pipeline."""
    name, version = execution.settings.name, execution.settings.version
    meters = shared.meters.of(name, version)
    if execution.capabilities.steps:
        meters.of(StepMeters)  # Shown before the first stream.
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
