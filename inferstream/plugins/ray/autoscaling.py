"""A Ray autoscaling policy based on the load that replicas report."""

from math import ceil
from typing import Any

UTILIZATION = "utilization"

WANTED = 0.8
"""The target utilization. At 1, each additional call waits."""


def by_utilization(context: Any) -> tuple[int, dict[str, Any]]:
    """Return the number of replicas for a mean utilization of `WANTED`, within the configured bounds.

    `context` is a Ray Serve AutoscalingContext. If no replica has reported its load, the number of
    replicas stays the same.
    """
    recorded = (context.aggregated_metrics or {}).get(UTILIZATION, {})
    if not recorded:
        return context.target_num_replicas, {}
    replicas = ceil(round(sum(recorded.values()) / WANTED, 6))
    low, high = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return min(max(replicas, low), high), {}
