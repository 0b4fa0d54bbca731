"""The stage that caches responses, and the store that all models share."""

import logging
from dataclasses import replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from ...settings import Settings
from ...telemetry.metrics import Meters
from ...telemetry.stages import CacheMeters, StoreMeters
from .base import Pipeline, Shared
from .deadline import Deadline, limit_of
from .live import Live

if TYPE_CHECKING:
    from .store import Store

logger = logging.getLogger("inferstream.dataplane")


def store_of(settings: Settings, meters: Meters) -> "Store | None":
    """The store of the response cache; None unless the settings enable it."""
    if not settings.cache_enabled:
        return None
    from .store import Store  # late: no import cost when it is off

    seconds = inf if settings.cache_ttl is None else settings.cache_ttl
    store_meters = StoreMeters()
    meters.show(CacheMeters, store_meters)
    return Store(settings.cache_size, settings.cache_max_bytes, seconds, monotonic, store_meters)


def caching(model: Pipeline, shared: Shared) -> Pipeline:
    """The response cache, with an inner time limit for computations; off unless both settings enable it."""
    settings = model.settings
    if not settings.cache_enabled:
        return model
    if shared.store is None:
        logger.warning("model %s: cache_enabled has no effect unless the server enables it", settings.name)
        return model
    from .cache import Cache

    inner = model.handler
    limit = limit_of(settings, shared.settings)
    if limit is not None or shared.long_calls.limits(settings):
        # A computation outlives the caller that began it.
        computations = Live(Deadline(inner, limit))
        shared.long_calls.watch(computations, settings)
        inner = computations
    seconds = settings.cache_ttl or shared.store.seconds
    most = model.slots.count + settings.max_queue
    cache = Cache(inner, shared.store, seconds, most, model.meters.of(CacheMeters))
    at_retirement = (*model.at_retirement, cache.clear)
    # A cached response needs no place in the queue.
    return replace(model, handler=cache, form=None, refuse=None, at_retirement=at_retirement)
