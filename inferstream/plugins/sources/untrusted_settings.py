"""Resource limits for settings from untrusted sources."""

from collections.abc import Mapping
from typing import Any

from inferstream import ModelSettings, Settings
from inferstream.ext.telemetry import get_logger

MAX_VALUES = {
    "max_active": 32,
    "max_batch_size": 1024,
    "max_concurrency": 64,
    "max_queue": 1024,
    "stream_buffer": 32,
    "threads": 64,
    "worker_concurrency": 64,
}
"""Maximum values of settings that use memory or threads."""

logger = get_logger("repository")


def bound(settings: ModelSettings, server: Settings, workers: int, by_operator: Mapping[str, Any]) -> int:
    """Reduce untrusted settings to the limits, log this, and return the number of `workers` that they use.

    Settings from the operator's environment are not changed.
    """
    bounds: dict[str, Any] = {}
    wanted = settings.parallel_workers or 0
    if wanted > workers:
        bounds["parallel_workers"] = workers or None
    if settings.devices != "auto":
        bounds["devices"] = settings.devices[:workers]
    for name, most in MAX_VALUES.items():
        if value := getattr(settings, name):
            bounds[name] = min(value, most)
    if server.request_timeout and "request_timeout" in settings.model_fields_set:
        bounds["request_timeout"] = min(
            settings.request_timeout or server.request_timeout, server.request_timeout
        )
    bounds["pinned"] = False
    lowered = {
        name: value
        for name, value in bounds.items()
        if name not in by_operator and getattr(settings, name) != value
    }
    for name, value in lowered.items():
        setattr(settings, name, value)
    if settings.parameters is not None:
        settings.parameters.inference_pool_gid = None  # A pool has separate worker processes.
        settings.parameters.autogenerate_inference_pool_gid = False
    if lowered:
        shown = ", ".join(f"{name} is {value}" for name, value in lowered.items())
        logger.warning("model %s: limited without trust_remote_code: %s", settings.name, shown)
    return max(min(wanted, workers), 0)
