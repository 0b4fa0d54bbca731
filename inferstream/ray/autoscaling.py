"""A policy of Ray's autoscaler that follows the load that replicas record."""

from math import ceil
from typing import Any

UTILIZATION = "utilization"

WANTED = 0.8
"""The utilization of the replicas that the policy aims at. At 1 each call beyond waits."""


def by_utilization(context: Any) -> tuple[int, dict[str, Any]]:
    """As many replicas as bring their mean utilization to `WANTED`, within Serve's bounds.

    `context` is Serve's AutoscalingContext. Without any record the number of replicas stays.
    """
    recorded = (context.aggregated_metrics or {}).get(UTILIZATION, {})
    if not recorded:
        return context.target_num_replicas, {}
    replicas = ceil(round(sum(recorded.values()) / WANTED, 6))
    low, high = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return min(max(replicas, low), high), {}
