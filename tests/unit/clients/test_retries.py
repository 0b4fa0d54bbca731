"""Attempts at a call: which are made, and when."""

import asyncio

import pytest

from inferstream.clients.retries import LONGEST_PAUSE, nothing_began, pause_after, retried
from inferstream.errors import CallFailed


def test_a_pause_grows_and_is_never_shorter_than_asked() -> None:
    assert 0.125 <= pause_after(0, None) <= 0.25
    assert pause_after(10_000, None) <= LONGEST_PAUSE
    assert pause_after(0, 7.0) == 7.0


@pytest.mark.parametrize(("retryable", "calls"), [(True, 3), (False, 1)])
async def test_only_what_may_help_is_tried_again(retryable: bool, calls: int) -> None:
    made = 0

    async def call() -> None:
        nonlocal made
        made += 1
        raise CallFailed("no", retryable=retryable)

    with pytest.raises(CallFailed):
        await retried(call, 2)
    assert made == calls


async def test_a_failure_with_nothing_begun_is_what_the_caller_may_ask_to_repeat() -> None:
    refused = CallFailed("no", retryable=True, unreachable=True)
    busy = CallFailed("no", retryable=True, retry_after=1)
    lost = CallFailed("no", retryable=True)
    assert [nothing_began(error) for error in (refused, busy, lost)] == [True, True, False]


async def test_a_pause_that_would_pass_the_limit_is_not_made() -> None:
    made = 0

    async def call() -> None:
        nonlocal made
        made += 1
        raise CallFailed("no", retryable=True, retry_after=60)

    with pytest.raises(CallFailed):
        await retried(call, 5, until=asyncio.get_running_loop().time() + 30)
    assert made == 1
