"""The policy of Ray's autoscaler."""

from types import SimpleNamespace

import pytest

from inferstream.plugins.ray import by_utilization


def context(recorded, target: int = 2, low: int = 1, high: int = 5) -> SimpleNamespace:
    return SimpleNamespace(
        aggregated_metrics=recorded,
        target_num_replicas=target,
        capacity_adjusted_min_replicas=low,
        capacity_adjusted_max_replicas=high,
    )


@pytest.mark.parametrize(
    ("utilizations", "replicas"),
    [
        ([0.0, 0.0], 1),
        ([0.8], 1),
        ([0.8, 0.8], 2),
        ([1.0, 0.7], 3),
        ([4.0, 4.0], 5),
    ],
)
def test_replica_count_targets_utilization_within_bounds(utilizations, replicas: int) -> None:
    recorded = {"utilization": dict(enumerate(utilizations)), "waiting": {0: 9.0}}
    assert by_utilization(context(recorded)) == (replicas, {})


@pytest.mark.parametrize("recorded", [None, {}, {"waiting": {0: 1.0}}])
def test_replica_count_is_kept_without_record(recorded) -> None:
    assert by_utilization(context(recorded, target=3)) == (3, {})
