"""The load as text for Prometheus and endpoint pickers, and as JSON for autoscalers."""

from typing import Any

import orjson

from inferstream import Settings
from inferstream.plugins.kubernetes.settings import KubernetesSettings

from ...dataplane.load import Load, Loads, load_of

TOTALS = (
    ("inferstream_waiting", "Calls that wait, of all models"),
    ("inferstream_running", "Calls that run, of all models"),
    (
        "inferstream_utilization",
        "Calls for each that can run at once, of the busiest model; above 1 some wait",
    ),
    ("inferstream_kv_usage", "Part of the KV caches in use, of the fullest model"),
)
"""Names and help of the totals, in the order of `Load`'s fields."""

ALIASES = {
    "vllm": ("vllm:num_requests_waiting", "vllm:num_requests_running", None, "vllm:kv_cache_usage_perc"),
    "sglang": ("sglang:num_queue_reqs", "sglang:num_running_reqs", None, "sglang:token_usage"),
    "triton": ("nv_inference_pending_request_count", None, None, None),
}
"""Gauges of other servers with the meanings of `TOTALS`.

Pickers add nothing up and read one series of a name, so the total is the only one. Triton's number of executions
since its start is left out: pickers read it as the number of running calls, which it is not.
"""


def exposition(total: Load, settings: Settings) -> bytes:
    """The load of the server in Prometheus' text format: gauges without labels, also by the names of other servers."""
    aliases = settings.section(KubernetesSettings).metric_aliases
    named = zip(TOTALS, total, *(ALIASES[server] for server in aliases), strict=True)
    return "".join(
        f"# HELP {name} {help}\n# TYPE {name} gauge\n{name} {round(value, 6)}\n"
        for (own, help), value, *others in named
        for name in (own, *others)
        if name is not None
    ).encode()


async def load_document(loads: Loads) -> bytes:
    """The load of the server and of each model as JSON. A version that needs no name has the model's alone."""
    load, models = await loads.current(), {}
    for each in sorted(load.models, key=lambda each: (each.model, each.version or "")):
        model, version = each.model, each.version
        name = model if version in (None, loads.version_of_default(model)) else f"{model}:{version}"
        models[name] = {**_rounded(load_of(each)), "version": version}
    return orjson.dumps({**_rounded(load.total), "models": models})


def _rounded(load: Load) -> dict[str, Any]:
    """Sums of floating-point changes may end with a billionth."""
    return {**load._asdict(), "utilization": round(load.utilization, 6), "kv_usage": round(load.kv_usage, 6)}
