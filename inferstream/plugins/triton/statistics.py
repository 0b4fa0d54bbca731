"""Triton statistics: counts and durations of each model, from the metrics."""

from time import perf_counter, time
from typing import Any

from inferstream.ext.calls import Caller, ServerModels
from inferstream.ext.telemetry import Meters

Samples = dict[str, dict[str, float]]
"""The samples of a model, by metric name and by the value of the label besides `model` and `version`."""

KEY = ("model", "version")

EXECUTIONS, EXECUTION_SECONDS = "inferstream_compute_seconds_count", "inferstream_compute_seconds_sum"


async def collect_statistics(
    dataplane: ServerModels, meters: Meters, caller: Caller, name: str | None, version: str | None
) -> list[dict[str, Any]]:
    """Return the statistics of one version, of all versions of a model, or of all models if `name` is None.

    Raises ModelNotFound or ModelNotReady.
    """
    if name is not None:
        dataplane.model_ready(name, version)  # Raises an error if the model is missing.
    asked = [key for key in dataplane.models(caller) if name in (None, key[0])]
    keys = [key for key in asked if version in (None, key[1])]
    samples: dict[tuple[str, str], Samples] = {(model, of or ""): {} for model, of in keys}
    for family in await meters.everywhere():
        for metric, labels, value, *_ in family.samples:
            counted = samples.get((labels.get("model", ""), labels.get("version", "")))
            if counted is not None:
                label = next((text for name, text in labels.items() if name not in KEY), "")
                counted.setdefault(metric, {})[label] = value
    return [_statistics(meters, *key, samples[key]) for key in samples]


def _statistics(meters: Meters, name: str, version: str, samples: Samples) -> dict[str, Any]:
    last = meters.of(name, version or None).last
    came = 0.0 if last is None else time() - perf_counter() + last
    return {
        "name": name,
        "version": version,
        "last_inference": round(came * 1000),
        "inference_count": int(_sum(samples, "inferstream_inferences_total")),
        "execution_count": int(_sum(samples, EXECUTIONS)),
        "inference_stats": _inferences(samples),
        "response_stats": {},
        "batch_stats": _batches(samples),
        "memory_usage": [],
    }


def _inferences(samples: Samples) -> dict[str, Any]:
    """Return counts and durations of calls and of their executions."""
    succeeded = _sum(samples, "model_infer_request_success_total")
    failed = _sum(samples, "inferstream_failed_call_seconds_total")
    lookups = samples.get("inferstream_cache_lookups_total", {})
    waits = ("inferstream_queue_wait_seconds_sum", "inferstream_batch_wait_seconds_sum")
    return {
        "success": _duration(succeeded, _sum(samples, "model_infer_request_duration_sum") - failed),
        "fail": _duration(_sum(samples, "model_infer_request_failure_total"), failed),
        "queue": _duration(succeeded, sum(_sum(samples, wait) for wait in waits)),
        **_executions(_sum(samples, EXECUTIONS), _sum(samples, EXECUTION_SECONDS)),
        "cache_hit": _duration(lookups.get("hit", 0) + lookups.get("joined", 0)),
        "cache_miss": _duration(lookups.get("miss", 0)),
    }


def _batches(samples: Samples) -> list[dict[str, Any]]:
    seconds = samples.get(EXECUTION_SECONDS, {})
    return [
        {"batch_size": int(size), **_executions(count, seconds[size])}
        for size, count in samples.get(EXECUTIONS, {}).items()
        if size.isdigit()
    ]


def _executions(count: float, seconds: float) -> dict[str, Any]:
    """Return counts and durations of executions. The time to encode and decode tensors is not measured."""
    return {
        "compute_input": _duration(count),
        "compute_infer": _duration(count, seconds),
        "compute_output": _duration(count),
    }


def _sum(samples: Samples, metric: str) -> float:
    return sum(samples.get(metric, {}).values())


def _duration(count: float, seconds: float = 0.0) -> dict[str, int]:
    return {"count": int(count), "ns": round(seconds * 1e9)}
