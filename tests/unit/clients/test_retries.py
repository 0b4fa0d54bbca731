"""Attempts at a call: which are made, and when."""

import asyncio

import pytest

from inferstream.clients.retries import MAX_PAUSE_SECONDS, never_started, pause_after, retry
from inferstream.errors import CallFailed


def test_pause_grows_and_respects_retry_after() -> None:
    assert 0.125 <= pause_after(0, None) <= 0.25
    assert pause_after(10_000, None) <= MAX_PAUSE_SECONDS
    assert pause_after(0, 7.0) == 7.0


@pytest.mark.parametrize(("retryable", "calls"), [(True, 3), (False, 1)])
async def test_only_retryable_errors_are_retried(retryable: bool, calls: int) -> None:
    made = 0

    async def call() -> None:
        nonlocal made
        made += 1
        raise CallFailed("no", retryable=retryable)

    with pytest.raises(CallFailed):
        await retry(call, 2)
    assert made == calls


async def test_unreachable_and_busy_failures_count_as_unstarted() -> None:
    refused = CallFailed("no", retryable=True, unreachable=True)
    busy = CallFailed("no", retryable=True, retry_after=1)
    lost = CallFailed("no", retryable=True)
    assert [never_started(error) for error in (refused, busy, lost)] == [True, True, False]


async def test_pause_beyond_the_limit_is_skipped() -> None:
    made = 0

    async def call() -> None:
        nonlocal made
        made += 1
        raise CallFailed("no", retryable=True, retry_after=60)

    with pytest.raises(CallFailed):
        await retry(call, 5, until=asyncio.get_running_loop().time() + 30)
    assert made == 1
