"""The load as Prometheus text for endpoint pickers, and as JSON for autoscalers."""

from typing import Any

import orjson

from inferstream import Settings

from .load import Load, Loads, to_load
from .settings import KubernetesSettings

TOTALS = (
    ("inferstream_waiting", "Waiting calls of all models"),
    ("inferstream_running", "Running calls of all models"),
    (
        "inferstream_utilization",
        "Calls divided by slots, for the busiest model. Above 1, some calls wait",
    ),
    ("inferstream_kv_usage", "Fraction of the KV cache in use, for the model with the highest use"),
)
"""Metric names and descriptions of the totals, in the field order of `Load`."""

ALIASES = {
    "vllm": ("vllm:num_requests_waiting", "vllm:num_requests_running", None, "vllm:kv_cache_usage_perc"),
    "sglang": ("sglang:num_queue_reqs", "sglang:num_running_reqs", None, "sglang:token_usage"),
    "triton": ("nv_inference_pending_request_count", None, None, None),
}
"""Gauges of other servers with the same meanings as `TOTALS`.

Pickers read one series per name without adding any up, so only the totals are exported. The Triton counter of
executions is omitted, because pickers would read it as the number of running calls.
"""


def exposition(total: Load, settings: Settings) -> bytes:
    """Return the server load as gauges in the Prometheus text format, including configured aliases."""
    aliases = settings.section(KubernetesSettings).metric_aliases
    named = zip(TOTALS, total, *(ALIASES[server] for server in aliases), strict=True)
    return "".join(
        f"# HELP {name} {help}\n# TYPE {name} gauge\n{name} {round(value, 6)}\n"
        for (own, help), value, *others in named
        for name in (own, *others)
        if name is not None
    ).encode()


async def load_document(loads: Loads) -> bytes:
    """Return the load of the server and of each model as JSON.

    The default version is listed under the model name only.
    """
    load, models = await loads.current(), {}
    for each in sorted(load.models, key=lambda each: (each.model, each.version or "")):
        model, version = each.model, each.version
        name = model if version in (None, loads.find_default_version(model)) else f"{model}:{version}"
        models[name] = {**_round(to_load(each)), "version": version}
    return orjson.dumps({**_round(load.total), "models": models})


def _round(load: Load) -> dict[str, Any]:
    """Convert to a dictionary, without floating-point errors of accumulated sums."""
    return {**load._asdict(), "utilization": round(load.utilization, 6), "kv_usage": round(load.kv_usage, 6)}
