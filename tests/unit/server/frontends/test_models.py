"""Limits that several front ends keep together."""

import pytest

from inferstream.server.frontends.models import reduce_to_share
from inferstream.settings import ModelSettings


def settings(**limits: int) -> ModelSettings:
    return ModelSettings(implementation="m.M", name="m", **limits)


@pytest.mark.parametrize("limit", range(1, 12))
@pytest.mark.parametrize("count", [2, 3, 5])
def test_limit_is_divided_evenly_with_at_least_one_each(limit: int, count: int) -> None:
    shares = []
    for index in range(count):
        own = settings(max_concurrency=limit, max_queue=limit)
        reduce_to_share(own, index, count)
        assert own.max_concurrency == own.max_queue
        shares.append(own.max_queue)
    assert sum(shares) == max(limit, count)
    assert max(shares) - min(shares) <= 1


def test_unlimited_concurrency_and_zero_queue_are_not_divided() -> None:
    own = settings(max_queue=0)
    reduce_to_share(own, 0, 2)
    assert own.max_concurrency is None
    assert own.max_queue == 0
