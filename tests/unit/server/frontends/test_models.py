"""Limits that several front ends keep together."""

import pytest

from inferstream.server.frontends.models import divide
from inferstream.settings import ModelSettings


def settings(**limits: int) -> ModelSettings:
    return ModelSettings(implementation="m.M", name="m", **limits)


@pytest.mark.parametrize("limit", range(1, 12))
@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_shares_add_up_to_the_limit_or_one_each(limit: int, count: int) -> None:
    shares = []
    for index in range(count):
        own = settings(max_concurrency=limit, max_queue=limit)
        divide(own, index, count)
        assert own.max_concurrency == own.max_queue
        shares.append(own.max_queue)
    assert sum(shares) == max(limit, count)
    assert max(shares) - min(shares) <= 1


def test_what_is_not_limited_and_what_may_not_wait_stay_so() -> None:
    own = settings(max_queue=0)
    divide(own, 0, 2)
    assert own.max_concurrency is None
    assert own.max_queue == 0
