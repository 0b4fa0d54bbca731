"""Bounds of the resources that settings without trust may take."""

from collections.abc import Mapping
from typing import Any

from inferstream import ModelSettings, Settings
from inferstream.ext.telemetry import get_logger

LARGEST = {
    "max_active": 32,
    "max_batch_size": 1024,
    "max_concurrency": 64,
    "max_queue": 1024,
    "stream_buffer": 32,
    "threads": 64,
    "worker_concurrency": 64,
}
"""The largest values of settings that take memory or threads: the defaults."""

logger = get_logger("repository")


def bound(settings: ModelSettings, server: Settings, workers: int, by_operator: Mapping[str, Any]) -> int:
    """Lower settings without trust to the bounds, log it, and return how many of `workers` they take.

    Settings from the operator's environment stay.
    """
    bounds: dict[str, Any] = {}
    wanted = settings.parallel_workers or 0
    if wanted > workers:
        bounds["parallel_workers"] = workers or None
    if settings.devices != "auto":
        bounds["devices"] = settings.devices[:workers]
    for name, most in LARGEST.items():
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
        settings.parameters.inference_pool_gid = None  # a pool has its own worker processes
        settings.parameters.autogenerate_inference_pool_gid = False
    if lowered:
        shown = ", ".join(f"{name} is {value}" for name, value in lowered.items())
        logger.warning("model %s: limited without trust_remote_code: %s", settings.name, shown)
    return max(min(wanted, workers), 0)
